"""Functions and exports of ``tgp.utils`` and ``tgp.mp`` in version 1.0.2 keep names, order and defaults."""

import importlib
import inspect
import json
from pathlib import Path

import pytest
import torch

import tgp
from tgp.errors import InputError
from tgp.utils import losses, ops

API = json.loads((Path(__file__).resolve().parents[1] / "compat" / "api_1_0_2.json").read_text())
MODULES = sorted(name for name in API["exports"] if name.startswith(("tgp.utils", "tgp.mp")))
HOMES = ("tgp.utils.ops", "tgp.utils.losses", "tgp.utils.cheatsheet", "tgp.utils.signature", "tgp.mp.gtvconv")


def find(name):
    """Return the public function of this name in the modules of this package, or ``None``."""
    for home in HOMES:
        if name in API["exports"].get(home, ()):
            return getattr(importlib.import_module(home), name)
    return None


FUNCTIONS = sorted(
    name for name in API["functions"] if name != "get_pooler" and find(name) is not None
)  # get_pooler belongs to tgp.poolers


@pytest.mark.parametrize("module", MODULES)
def test_exports(module):
    present = importlib.import_module(module)
    assert [name for name in API["exports"][module] if not hasattr(present, name)] == []


def test_most_functions_are_found():
    assert len(FUNCTIONS) >= 60


@pytest.mark.parametrize("name", FUNCTIONS)
def test_signatures(name):
    scope = {}
    exec(f"def function{API['functions'][name]}: pass", {"torch": torch}, scope)
    old = list(inspect.signature(scope["function"]).parameters.values())
    new = list(inspect.signature(find(name)).parameters.values())
    assert [p.name for p in new[: len(old)]] == [p.name for p in old]
    for before, now in zip(old, new, strict=False):
        assert now.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
        if before.default is not inspect.Parameter.empty:
            assert now.default == before.default
    assert all(p.default is not inspect.Parameter.empty for p in new[len(old) :])


def test_constants():
    assert ops.eps == losses.eps == tgp.eps
    from tgp.utils import cheatsheet

    assert cheatsheet.TEST_EDGE_INDEX.tolist() == [list(range(9)), list(range(1, 10))]
    assert cheatsheet.TEST_X.shape == (10, 16) and cheatsheet.TEST_EDGE_WEIGHT.tolist() == [1] * 9
    assert callable(cheatsheet.get_pooler) and "topk" in cheatsheet.pooler_map
    with pytest.raises(AttributeError):
        cheatsheet.nothing  # noqa: B018


def test_no_nodes_no_balance():
    """Losses of graphs without nodes are 0, as docs/migration.md documents."""
    assert losses.asym_norm_loss(torch.zeros(1, 0, 3), 3) == 0
    assert losses.unbatched_asym_norm_loss(torch.zeros(0, 3), 3) == 0
    assert losses.asym_norm_loss(torch.rand(1, 4, 3), 3, torch.zeros(1, 4, dtype=torch.bool)) == 0
    for loss in (losses.cluster_loss, losses.just_balance_loss, losses.orthogonality_loss):
        assert loss(torch.zeros(1, 0, 3)) == 0


def test_keywords_of_tgp_1_0_2():
    s = torch.eye(3)[:, :2]
    torch.testing.assert_close(ops.pseudo_inverse(edge_index=s), torch.linalg.pinv(s))
    logits, labels = torch.randn(5), torch.ones(5)
    first = losses.sparse_bce_reconstruction_loss(link_prob_loigit=logits, true_y=labels)
    second = losses.sparse_bce_reconstruction_loss(link_prob_logit=logits, true_y=labels)
    third = losses.sparse_bce_reconstruction_loss(logits, labels)
    assert first == second == third


MESSAGES = [
    (lambda: ops.connectivity_to_torch_coo([[0], [1]]), ValueError, "Edge index must be of type"),
    (lambda: ops.get_assignments([0]), ValueError, "Either num_nodes, batch, or edge_index must be provided"),
    (
        lambda: ops.connectivity_to_edge_index(torch.zeros(1, 3, 3)),
        ValueError,
        "Dense adjacency matrices are not supported",
    ),
    (
        lambda: ops.connectivity_to_edge_index(torch.zeros(2, dtype=torch.long)),
        ValueError,
        "got a Tensor with 1 dimensions",
    ),
    (lambda: ops.connectivity_to_edge_index(torch.zeros(2, 3)), ValueError, "dtype=torch.float32"),
    (lambda: ops.connectivity_to_edge_index("edges"), NotImplementedError, ""),
    (lambda: ops.check_and_filter_edge_weights(torch.ones(2, 2)), RuntimeError, ""),
    (lambda: ops.pseudo_inverse("matrix"), NotImplementedError, ""),
    (lambda: ops.get_mask_from_dense_s(torch.zeros(2)), ValueError, "s must have shape"),
    (lambda: ops.get_mask_from_dense_s(torch.eye(2).to_sparse()), AssertionError, ""),
    (lambda: ops.dense_to_block_diag(torch.zeros(2)), ValueError, "adj_pool must have shape"),
    (
        lambda: ops.expand_compacted_rows(torch.tensor(1.0), None, 1),
        ValueError,
        "x_compact must be at least 1D",
    ),
    (
        lambda: ops.expand_compacted_rows(torch.ones(1, 2), None, 1),
        ValueError,
        "valid_mask must contain exactly",
    ),
    (lambda: ops.apply_dense_node_mask(torch.ones(2, 2), torch.ones(2)), ValueError, "expects x to be 3D"),
    (lambda: ops.negative_edge_sampling(torch.zeros(2, 1).long(), method="fast"), AssertionError, ""),
    (lambda: losses.orthogonality_loss(torch.eye(2), "max"), ValueError, "Batch reduction .* not allowed"),
    (
        lambda: losses.maxcut_loss(torch.ones(2, 2), torch.zeros(2, 1).long()),
        ValueError,
        "Expected scores to have shape",
    ),
    (
        lambda: losses.kl_loss(None, None, mask=torch.ones(1), batch=torch.ones(1)),
        ValueError,
        "Cannot specify both mask and batch",
    ),
    (lambda: losses.kl_loss(None, None, batch=torch.ones(1)), ValueError, "Batch size must be specified"),
]


@pytest.mark.parametrize("call, kind, phrase", MESSAGES)
def test_key_phrases(call, kind, phrase):
    with pytest.raises(kind, match=phrase or None) as caught:
        call()
    assert isinstance(caught.value, InputError)
