"""Selectors accept the calls and pickles of tgp 1.0.2 and have its attributes and error messages."""

import base64
import importlib
import pickle
import zlib

import numpy as np
import pytest
import torch
from torch import nn

import tgp.select as select
from tgp.select import (
    DPSelect,
    EdgeContractionSelect,
    EigenPoolSelect,
    GraclusSelect,
    IdentitySelect,
    KMISSelect,
    LaPoolSelect,
    MaxCutSelect,
    MLPSelect,
    NDPSelect,
    NMFSelect,
    SelectOutput,
    SEPSelect,
    TopkSelect,
)
from tgp.select.eigenpool_select import build_pooling_matrix, eigenvectors, laplacian
from tgp.select.maxcut_select import MaxCutScoreNet

EDGES = torch.tensor([[0, 1, 1, 2, 2, 3, 3, 4, 4, 5], [1, 0, 2, 1, 3, 2, 4, 3, 5, 4]])
WEIGHT = torch.arange(1.0, 11.0)
BATCH = torch.tensor([0, 0, 0, 0, 0, 0])
X = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))


def same(a, b):
    assert a.s.to_dense().equal(b.s.to_dense())


@pytest.mark.parametrize(
    ("selector", "args", "keywords"),
    [
        (GraclusSelect(), (EDGES, WEIGHT, 6), ("edge_index", "edge_weight", "num_nodes")),
        (NDPSelect(), (EDGES, WEIGHT), ("edge_index", "edge_weight")),
        (NMFSelect(2), (EDGES, WEIGHT), ("edge_index", "edge_weight")),
        (EigenPoolSelect(2), (X, EDGES, WEIGHT), ("x", "edge_index", "edge_weight")),
        (SEPSelect(), (X, EDGES, WEIGHT), ("x", "edge_index", "edge_weight")),
        (EdgeContractionSelect(4), (X, EDGES), ("x", "edge_index")),
        (MaxCutSelect(4), (X, EDGES, WEIGHT, BATCH), ("x", "edge_index", "edge_weight", "batch")),
        (TopkSelect(4), (X,), ("x",)),
        (MLPSelect(4, 2), (X[None], BATCH[None] == 0, None), ("x", "mask", "batch")),
        (DPSelect(4, 2).eval(), (X[None], BATCH[None] == 0, None), ("x", "mask", "batch")),
        (
            LaPoolSelect(batched_representation=False),
            (X, EDGES, WEIGHT, BATCH, None, 6),
            ("x", "edge_index", "edge_weight", "batch", "mask", "num_nodes"),
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_positional_order(selector, args, keywords):
    same(selector(*args), selector(**dict(zip(keywords, args, strict=True))))


def test_selectors_accept_every_keyword_of_a_pooler():
    keywords = {
        "x": X,
        "edge_index": EDGES,
        "edge_weight": WEIGHT,
        "batch": BATCH,
        "num_nodes": 6,
        "batch_size": 1,
    }
    selectors = [GraclusSelect(), NDPSelect(), NMFSelect(2), EigenPoolSelect(2), SEPSelect(), KMISSelect(4)]
    selectors += [
        EdgeContractionSelect(4),
        MaxCutSelect(4),
        TopkSelect(4),
        MLPSelect(4, 2, False),
        IdentitySelect(),
    ]
    selectors += [DPSelect(4, 2, False), LaPoolSelect(batched_representation=False)]
    for selector in selectors:
        assert selector(**keywords, level=1, anything=None).num_nodes == 6


def test_parameters_of_level_methods_can_be_assigned():
    kmis = KMISSelect(scorer="degree")
    kmis.order_k, kmis.seed, kmis.score_heuristic = 2, 7, None
    same(
        kmis(edge_index=EDGES), KMISSelect(scorer="degree", order_k=2, score_heuristic=None)(edge_index=EDGES)
    )
    kmis.scorer = "canonical"
    expected = KMISSelect(scorer="canonical", order_k=2, score_heuristic=None)(edge_index=EDGES)
    same(kmis(edge_index=EDGES), expected)
    with pytest.raises(ValueError, match="order_k"):
        kmis.order_k = 0
    eigen = EigenPoolSelect(2)
    eigen.k, eigen.num_modes, eigen.normalized = 3, 2, False
    assert eigen(edge_index=EDGES).theta.shape == (6, 2) and eigen(edge_index=EDGES).num_supernodes == 3
    graclus = GraclusSelect()
    graclus.order = "index"
    same(graclus(EDGES), GraclusSelect(order="index")(EDGES))


def test_attributes_of_selectors():
    maxcut = MaxCutSelect(
        4, mp_units=(8, 4), mlp_units=(3,), mp_act="relu", mlp_act="tanh", act="sigmoid", delta=1.5
    )
    assert maxcut.mp_units == [8, 4] and maxcut.mlp_units == [3] and maxcut.delta == 1.5
    assert (maxcut.mp_act, maxcut.mlp_act, maxcut.score_act, maxcut.weight) == (
        "relu",
        "tanh",
        "sigmoid",
        None,
    )
    assert isinstance(TopkSelect(4).act, nn.Tanh) and isinstance(TopkSelect(4, act=None).act, nn.Identity)
    ec = EdgeContractionSelect(4)
    assert ec.compute_edge_score is EdgeContractionSelect.compute_edge_score_softmax
    ec.compute_edge_score = EdgeContractionSelect.compute_edge_score_tanh
    assert ec.edge_score_method is EdgeContractionSelect.compute_edge_score_tanh
    raw = torch.randn(10)
    assert EdgeContractionSelect.compute_edge_score_sigmoid(raw_edge_score=raw).equal(raw.sigmoid())
    assert MaxCutScoreNet(4, anything=1).in_channels == 4
    assert MaxCutSelect(4)(X, None).num_nodes == 6


@pytest.mark.parametrize(
    ("module", "names"),
    {
        "base_select": "Select SelectOutput cluster_to_s connectivity_to_edge_index get_assignments "
        "get_mask_from_dense_s is_sparsetensor pseudo_inverse",
        "dp_select": "DPSelect MLPSelect SelectOutput",
        "edge_contraction_select": "EdgeContractionSelect Select SelectOutput connectivity_to_edge_index "
        "maximal_matching maximal_matching_cluster",
        "eigenpool_select": "EigenPoolSelect Select SelectOutput build_pooling_matrix connectivity_to_edge_index "
        "eigenpool_select eigenvectors is_multi_graph_batch laplacian",
        "graclus_select": "GraclusSelect Select SelectOutput check_torch_cluster_available connectivity_to_edge_index",
        "identity_select": "IdentitySelect Select SelectOutput get_device is_sparsetensor",
        "kmis_select": "HAS_TORCH_SCATTER KMISSelect Select SelectOutput connectivity_to_edge_index degree_scorer "
        "maximal_independent_set maximal_independent_set_cluster weighted_degree",
        "lapool_select": "LaPoolSelect Select SelectOutput check_and_filter_edge_weights connectivity_to_edge_index "
        "is_dense_adj is_multi_graph_batch",
        "maxcut_select": "MaxCutScoreNet MaxCutSelect SelectOutput TopkSelect connectivity_to_edge_index "
        "delta_gcn_matrix",
        "mlp_select": "MLPSelect Select SelectOutput",
        "ndp_select": "NDPSelect Select SelectOutput connectivity_to_edge_index",
        "nmf_select": "NMFSelect Select SelectOutput connectivity_to_edge_index is_multi_graph_batch",
        "sep_select": "SEPSelect Select SelectOutput connectivity_to_edge_index",
        "topk_select": "Select SelectOutput TopkSelect",
    }.items(),
)
def test_exports(module, names):
    loaded = importlib.import_module(f"tgp.select.{module}")
    assert not [name for name in names.split() if not hasattr(loaded, name)]


def test_functions_of_eigenpool():
    adj = torch.zeros(4, 4).index_put((EDGES[0, :6], EDGES[1, :6]), torch.ones(()))
    for matrix in (laplacian(adj), laplacian(adj.numpy())):
        values, vectors = eigenvectors(matrix)
        assert isinstance(values, np.ndarray) and values.dtype == np.float32
        assert type(vectors) is type(matrix)
        rebuilt = np.asarray(vectors) @ np.diag(values) @ np.asarray(vectors).T
        assert np.allclose(rebuilt, np.asarray(matrix), atol=1e-5)
    theta = build_pooling_matrix(adj.numpy(), np.array([0, 0, 1, 1]), 2)
    assert isinstance(theta, np.ndarray) and theta.shape == (4, 4)
    assert isinstance(build_pooling_matrix(adj, torch.tensor([0, 0, 1, 1]), 2), torch.Tensor)
    assert select.eigenpool_select(EDGES, 2, WEIGHT, None, 6, True, "transpose", 2, False).theta.shape == (
        6,
        2,
    )


def test_initial_weights_of_a_seed():
    torch.manual_seed(0)
    ec = EdgeContractionSelect(4)
    expected = [0.09355466812849045, -0.10684845596551895, -0.06949635595083237]
    assert ec.lin.weight.flatten().tolist()[:3] == expected
    assert ec.lin.bias.item() == 0.21214008331298828


# -- pickles ----------------------------------------------------------------------------------------------------

PICKLE = """
eNrtl09u20YUxjkkJQV2kxo2EiDJpqtC6UKgaIqkFrECJ3AXbB0n3mhTsJQ0FZnQokgO3TqBAWVhO04JNECnQBc9QHuDrnuCHiG7
ooseoEAL9JEUJdElC3YXGaEg/ptvRuRP37z3ZsJ/9/M6E2/hDTIcN3xs4z5p9Awf68k5Dd/bj08eBmQcEPotvfOCHtN6iHxoIo7X
Nxt6QCwbLm/oHu4Flj3Q/bHhwRAEj3zHgz7hRqL0sWcZtvXMIJYzouGqPsREt40jJx45XJuqkt59x6En9DGtm9VwfTZ0MqZ+KEKH
enh12gMOxhDDCLrtGAP9C8850HtHBPug2v4IMcyEfbVi//XDzp8fPPlx72Zjwn76Owf7Y5epd9fg/ceeQ5y+Y+uH2PPh4VwEgu5V
aLEtQmys49HAMkYu+7K7AjfJ0RgIWc+w73LHLl/vVuCmbzoecSsa2+XgyhoRt6rxXT4awxkN3ZrGBwH8Zr1bi8TJI7tMP36FlU9A
sp/cW3FR9xpI2pIiCbLQEuU2fNxk2P44cDmtuktc/hEM9pnL5GmR0agy2Q1NjyyTv6XtMXON0ViNO6Uap6FTeh6uAprIBUAG/ujV
h94Ae3jwwOrHjnhMCfQx1+rmxnZtGWDvgEtIPm1REqWmLGRocwW0Uy3Q5mYcJ530m5LkTqiGTui5eXtKKqzEj0FDfh/eCggCZvY0
lr8k9DRW+Lo1OqTmFfNaPQG75C5WW+pmsyWWcnGqzXHxRbcWuTvPxTP+l8GpLVltKoIiSCWcOtf+X6eadxKCUft5as2eQcC8CcT1
5XalIraEdsnZnmozDPO34plfs0b6geE/pbuQ/fBXxDN0wxv69BtIZtyB5dPX5n5Cll1ysoKqioKaIYuKyE61QBYVkEQXSQY9k01K
EbOSANtY8syjCmJTUkpGyKl2IUIK13e2fvrlacf+7futlsZ0PiTPO1ZNn81tFCWZM6pVYUajs8U5LrzjV4ofRMKYH4o4LvD7eNfc
ixHe//ut57ftOHY+PlmRZVmUSoXCVLsQChFCC07LybmPohBXISYmBjX3XptfXo56UZWg5BbVUthS7QI259f3O2++/vzumz/k4iyc
iXXzivDWMmeIVltpS3K7mZ2vfH79MtMCOf5ChmALKsJ5BQildRTz/l0BcstdAbaVFlTJm1mCbBHBqRYILqwAo+pva0Yqp/rjLyxM
IFlcEgPKQlNUYPUmlDDgXJtjwKKF9aU3oCy0RXlTUtUSBpxrMwac3IPdvf8yIKvxWQNG2XY3yiZB74w2/gHlSCJ1
"""


def test_assignments_pickled_by_1_0_2_load():
    sparse, dense, partial = pickle.loads(zlib.decompress(base64.b64decode("".join(PICKLE.split()))))
    assert sparse.is_sparse and sparse.cluster_index.tolist() == [0, 0, 1] and sparse.mis.tolist() == [0]
    assert sparse.batch.tolist() == [0, 0, 0] and sparse._extra_args == {"mis"}
    assert dense.is_dense and dense.in_mask.tolist() == [[True] * 3] and dense.theta.shape == (3,)
    assert partial.node_index.tolist() == [0, 2] and partial.cluster.tolist() == [1, -1, 0, -1]
    assert partial.s_inv.to_dense()[0].tolist() == [0, 0, 4, 0]
    joined = SelectOutput.cat([sparse, sparse])
    assert joined.num_supernodes == 4 and pickle.loads(pickle.dumps(joined)).num_nodes == 6


def test_other_pickled_states_are_refused():
    so = SelectOutput.__new__(SelectOutput)
    with pytest.raises(ValueError, match="cannot load this SelectOutput: expected the state"):
        so.__setstate__({"cluster": torch.tensor([0])})


def state_of_1_0_2(**attributes):
    """Return the state that 1.0.2 pickles for a module, without the attributes that only this version has."""
    modules = {name: value for name, value in attributes.items() if isinstance(value, nn.Module)}
    state = {**nn.Module().__dict__, "_modules": modules, "training": False}
    return state | {name: value for name, value in attributes.items() if name not in modules}


@pytest.mark.parametrize(
    ("cls", "attributes"),
    [
        (NDPSelect, {}),
        (GraclusSelect, {}),
        (SEPSelect, {}),
        (NMFSelect, {"k": 2}),
        (EigenPoolSelect, {"k": 2, "num_modes": 3, "normalized": False}),
        (KMISSelect, {"order_k": 2, "scorer": "degree", "score_heuristic": None, "force_undirected": True}),
        (
            KMISSelect,
            {
                "order_k": 1,
                "scorer": "linear",
                "score_heuristic": "greedy",
                "force_undirected": False,
                "lin": KMISSelect(4).lin,
            },
        ),
        (
            TopkSelect,
            {"in_channels": None, "ratio": 0.5, "min_score": None, "act": nn.Tanh(), "weight": None},
        ),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_selectors_pickled_by_1_0_2_load(cls, attributes):
    selector = cls.__new__(cls)
    before = torch.get_rng_state()
    selector.__setstate__(state_of_1_0_2(s_inv_op="inverse", **attributes))
    assert torch.get_rng_state().equal(before)
    assert selector.s_inv_op == "inverse" and not selector.training
    for name, value in attributes.items():
        assert getattr(selector, name) is value or getattr(selector, name) == value
    so = selector(x=X if cls is KMISSelect else X[:, 0], edge_index=EDGES)
    assert so.num_nodes == 6 and so.s_inv_op == "inverse"


# -- messages ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (
            lambda: TopkSelect(4, None),
            ValueError,
            "At least one of the 'ratio' and 'min_score' parameters must be",
        ),
        (lambda: TopkSelect()(X), AssertionError, "x must be 1D when in_channels is None"),
        (
            lambda: MLPSelect(4, 2, False)(X[None]),
            AssertionError,
            r"x must be of shape \[N, F\] for unbatched mode",
        ),
        (lambda: MLPSelect(4, 2)(X[0]), ValueError, r"x must be of shape \[B, N, F\]"),
        (
            lambda: LaPoolSelect()(X, EDGES),
            ValueError,
            "Batched LaPoolSelect expects a dense adjacency tensor",
        ),
        (
            lambda: LaPoolSelect(False, False)(X, torch.ones(6, 6)),
            ValueError,
            "Unbatched LaPoolSelect expects a sparse adjacency tensor",
        ),
        (
            lambda: LaPoolSelect(False, False)(X, EDGES, mask=torch.ones(1, 6)),
            ValueError,
            "mask is only supported for batched representations",
        ),
        (lambda: LaPoolSelect(False, False)(X[None], EDGES), ValueError, r"x must have shape \[N, F\]"),
        (lambda: LaPoolSelect()(X[0], torch.ones(6, 6)), ValueError, r"x must have shape \[B, N, F\]"),
        (lambda: KMISSelect(4, scorer="best"), AssertionError, "Unrecognized `scorer` value: best"),
        (
            lambda: KMISSelect(4, score_heuristic="best"),
            AssertionError,
            "Unrecognized `score_heuristic` value: best",
        ),
        (
            lambda: KMISSelect(4)(edge_index=EDGES),
            AssertionError,
            "x must be provided when scorer is 'linear'",
        ),
        (lambda: NDPSelect()(None), NotImplementedError, "edge_index cannot be None"),
        (lambda: NMFSelect(2)(None), NotImplementedError, "edge_index cannot be None"),
        (lambda: KMISSelect(4)(x=X, edge_index=None), NotImplementedError, "edge_index cannot be None"),
        (lambda: SEPSelect().multi_level_select(None), NotImplementedError, "edge_index cannot be None"),
        (lambda: SEPSelect().multi_level_select(EDGES, levels=0), ValueError, "'levels' must be >= 1"),
    ],
)
def test_messages_keep_the_phrases_of_1_0_2(call, error, text):
    with pytest.raises(error, match=text):
        call()
    with pytest.raises(ValueError, match=text):
        call()
