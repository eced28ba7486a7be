"""AggrReduce, GlobalReduce and get_aggr over the whole table of aggregations."""

import warnings

import pytest
import torch
import torch_geometric.nn.aggr as pyg_aggr
from torch import nn

from tgp.errors import UnknownNameError
from tgp.reduce import AggrReduce, BaseReduce, GlobalReduce, get_aggr
from tgp.reduce.get_aggr import AGGREGATIONS, has_pyg_aggregation, is_pyg_aggregation, resolve_reduce_op
from tgp.select import SelectOutput

F = 4
ARGUMENTS = {
    "quantile": lambda: {"q": 0.5},
    "lstm": lambda: {"in_channels": F},
    "gru": lambda: {"in_channels": F},
    "set2set": lambda: {"in_channels": F, "processing_steps": 2},
    "degree_scaler": lambda: {
        "aggr": ["mean", "max"],
        "scaler": ["identity", "amplification"],
        "deg": torch.tensor([0, 1, 2, 3]),
    },
    "sort": lambda: {"k": 2},
    "multi": lambda: {"aggrs": ["mean", "max", "std"]},
    "attentional": lambda: {"gate_nn": nn.Linear(F, 1)},
    "equilibrium": lambda: {"in_channels": F, "out_channels": 3, "num_layers": [8]},
    "mlp": lambda: {
        "in_channels": F,
        "out_channels": 3,
        "max_num_elements": 6,
        "hidden_channels": 8,
        "num_layers": 2,
        "norm": None,
    },
    "deep_sets": lambda: {"local_nn": nn.Linear(F, 5), "global_nn": nn.Linear(5, 3)},
    "set_transformer": lambda: {"channels": F, "heads": 2},
    "lcm": lambda: {"in_channels": F, "out_channels": 3},
    "patch_transformer": lambda: {
        "in_channels": F,
        "out_channels": 3,
        "patch_size": 2,
        "hidden_channels": 8,
        "num_transformer_blocks": 1,
    },
    "graph_multiset_transformer": lambda: {"channels": F, "k": 2},
}
MASK = torch.tensor(
    [[1, 1, 1, 1, 1, 1], [1, 0, 1, 0, 1, 0], [1, 0, 0, 0, 0, 0], [1, 1, 1, 1, 0, 0]], dtype=torch.bool
)
BATCH = MASK.nonzero()[:, 0]


def build(alias):
    torch.manual_seed(0)
    return get_aggr(alias, **ARGUMENTS.get(alias, dict)())


def features(dtype=torch.float32):
    generator = torch.Generator().manual_seed(1)
    return torch.rand(*MASK.shape, F, generator=generator, dtype=dtype) + 0.1


@pytest.mark.parametrize("alias", AGGREGATIONS)
def test_padded_with_mask_equals_flat_with_batch(alias):
    readout = GlobalReduce(build(alias)).eval()
    x = features()
    padded = readout(x, mask=MASK)
    flat = readout(x[MASK], batch=BATCH)
    torch.testing.assert_close(padded, flat, rtol=1e-5, atol=1e-5)
    assert padded.size(0) == 4
    # Rows of padding have no effect.
    torch.testing.assert_close(readout(x.masked_fill(~MASK.unsqueeze(-1), 7.0), mask=MASK), padded)


SEES_OTHERS = {"equilibrium", "gru", "lcm", "lstm", "patch_transformer"}
"""Aggregations whose rows depend on the other groups: PyG pads to the largest group, or solves for all groups."""


@pytest.mark.parametrize("alias", sorted({*AGGREGATIONS} - SEES_OTHERS))
def test_the_row_of_a_graph_does_not_depend_on_other_graphs(alias):
    readout = GlobalReduce(build(alias)).eval()
    x = features()
    together = readout(x, mask=MASK)
    for graph in range(4):
        alone = readout(x[graph][MASK[graph]])
        torch.testing.assert_close(alone[0], together[graph], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("alias", AGGREGATIONS)
def test_supernodes_are_aggregated_like_graphs(alias):
    """A supernode is aggregated like a graph of its nodes, in ascending node order."""
    aggr = build(alias).eval()
    x = features()[MASK]
    shuffle = torch.tensor([2, 0, 3, 1])
    so = SelectOutput(cluster_index=shuffle[BATCH], num_supernodes=4)
    pooled, batch = AggrReduce(aggr)(x, so, batch=torch.zeros(len(x), dtype=torch.long))
    index, order = shuffle[BATCH].sort(stable=True)
    torch.testing.assert_close(pooled, aggr(x[order], index=index, dim_size=4, dim=0))
    if alias not in SEES_OTHERS:
        expected = torch.stack([AggrReduce(aggr)(x[shuffle[BATCH] == c])[0][0] for c in range(4)])
        torch.testing.assert_close(pooled, expected, rtol=1e-4, atol=1e-5)
    assert batch.tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("alias", AGGREGATIONS)
def test_gradients_reach_features_and_parameters(alias):
    readout = GlobalReduce(build(alias))
    x = features().requires_grad_()
    readout(x, mask=MASK).square().sum().backward()
    assert torch.isfinite(x.grad).all() and x.grad.abs().sum() > 0
    assert (x.grad[~MASK] == 0).all()


def test_table_names_real_classes():
    assert len(AGGREGATIONS) == 26
    assert all(issubclass(getattr(pyg_aggr, name), pyg_aggr.Aggregation) for name in AGGREGATIONS.values())


@pytest.mark.parametrize("spelling", ["Set2Set", " set2set ", "SET2SET"])
def test_spelling_does_not_matter(spelling):
    assert isinstance(get_aggr(spelling, in_channels=4, processing_steps=2), pyg_aggr.Set2Set)
    assert isinstance(get_aggr("Power-Mean"), pyg_aggr.PowerMeanAggregation)


def test_arguments_of_aggregations():
    lstm = get_aggr("lstm", in_channels=4, num_layers=2)
    assert lstm.lstm.num_layers == 2, "arguments for **kwargs must be passed on"
    assert get_aggr("lstm", in_channels=4).out_channels == 4
    assert get_aggr("gru", in_channels=4, out_channels=7).out_channels == 7
    with pytest.warns(UserWarning, match="no argument named in_channels"):
        get_aggr("sum", in_channels=4)
    with pytest.raises(TypeError, match="processing_steps"):
        get_aggr("set2set", in_channels=4)


def test_errors_of_names_and_types():
    with pytest.raises(ValueError, match="nknown aggregator alias") as info:
        get_aggr("sett2set")
    assert isinstance(info.value, UnknownNameError) and "set2set" in str(info.value)
    with pytest.raises(TypeError, match="aggr must be a PyG Aggregation"):
        AggrReduce("sum")
    for wrong in (3, None, pyg_aggr.SumAggregation):
        with pytest.raises(TypeError, match="string alias or a PyG Aggregation instance"):
            GlobalReduce(wrong)
    with pytest.raises(TypeError, match="no effect on an aggregation"):
        GlobalReduce(pyg_aggr.SumAggregation(), in_channels=3)
    instance = pyg_aggr.SumAggregation()
    assert resolve_reduce_op(instance) is instance
    assert has_pyg_aggregation() and is_pyg_aggregation(instance) and not is_pyg_aggregation(type(instance))


def test_missing_class_in_an_older_pyg(monkeypatch):
    monkeypatch.delattr(pyg_aggr, "LCMAggregation")
    with pytest.raises(ValueError, match=r"not found in torch_geometric\.nn\.aggr"):
        get_aggr("lcm", in_channels=3, out_channels=3)


@pytest.mark.parametrize("op", ["sum", "mean", "max", "min"])
def test_empty_graphs_keep_their_row(op):
    x = features()
    mask = MASK.clone()
    mask[2] = False
    out = GlobalReduce(op)(x, mask=mask)
    assert out.shape == (4, F) and (out[2] == 0).all()
    sparse = GlobalReduce(op)(x[mask], batch=mask.nonzero()[:, 0], size=6)
    assert sparse.shape == (6, F) and (sparse[4:] == 0).all()
    assert GlobalReduce(op)(x.new_zeros(0, F), batch=torch.zeros(0, dtype=torch.long)).shape == (1, F)


def test_global_reduce_errors():
    x, readout = features(), GlobalReduce()
    with pytest.raises(ValueError, match=r"2D .* 3D"):
        readout(x[0, 0])
    with pytest.raises(ValueError, match=r"mask must have shape \[B, N\]"):
        readout(x, mask=MASK[:, :3])
    with pytest.raises(ValueError, match="mask is only supported for dense"):
        readout(x[0], mask=MASK[0])
    with pytest.raises(ValueError, match="size is only supported for sparse readout"):
        readout(x[0], size=2)
    assert readout(x[0]).shape == (1, F)


def test_global_reduce_without_mask_ignores_batch_and_size():
    x = features()
    torch.testing.assert_close(GlobalReduce("sum")(x, batch=torch.zeros(3), size=9), x.sum(1))


def test_unsorted_graph_ids():
    x, order = features()[MASK], torch.randperm(len(BATCH), generator=torch.Generator().manual_seed(2))
    for op in ("sum", "median", "max"):
        readout = GlobalReduce(op)
        torch.testing.assert_close(readout(x[order], batch=BATCH[order]), readout(x, batch=BATCH))


def test_readout_of_aggr_reduce():
    reduce, x = AggrReduce(get_aggr("mean")), features()
    pooled, batch = reduce(x)
    assert pooled.shape == (4, F) and batch.tolist() == [0, 1, 2, 3]
    pooled, batch = reduce(x[0])
    assert pooled.shape == (1, F) and batch is None
    pooled, batch = reduce(x[MASK], batch=BATCH, size=6)
    assert pooled.shape == (6, F) and batch.tolist() == list(range(6))
    with pytest.raises(ValueError, match="expects x to be 2D"):
        reduce(x[0, 0])


def test_aggr_reduce_over_assignments():
    x = features()[0]
    so = SelectOutput(
        node_index=torch.tensor([0, 2, 3]),
        cluster_index=torch.tensor([1, 0, 1]),
        weight=torch.tensor([0.5, 2.0, 1.0]),
        num_nodes=6,
        num_supernodes=2,
        batch=torch.zeros(6, dtype=torch.long),
    )
    pooled, batch = AggrReduce(get_aggr("sum"))(x, so)
    torch.testing.assert_close(pooled, BaseReduce()(x, so)[0])
    assert batch.tolist() == [0, 0], "the batch of the assignment counts"
    mean, _ = AggrReduce(get_aggr("mean"))(x, so)
    torch.testing.assert_close(mean, torch.stack([2 * x[2], (0.5 * x[0] + x[3]) / 2]))
    with pytest.raises(ValueError, match="supports only sparse SelectOutput assignments"):
        AggrReduce(get_aggr("sum"))(x, SelectOutput(s=torch.rand(6, 2)))
    assert repr(AggrReduce(get_aggr("sum"))) == "AggrReduce(aggr=SumAggregation())"


def test_parameters_of_aggregations_are_registered_and_reset():
    reduce = AggrReduce(get_aggr("set2set", in_channels=F, processing_steps=2))
    assert any(p.requires_grad for p in reduce.parameters())
    before = [p.clone() for p in reduce.parameters()]
    reduce.reset_parameters()
    assert any(not torch.equal(a, b) for a, b in zip(before, reduce.parameters(), strict=True))
    assert GlobalReduce("set2set", in_channels=F, processing_steps=2)(features(), mask=MASK).shape == (
        4,
        2 * F,
    )


def test_building_by_name_gives_no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for alias in AGGREGATIONS:
            build(alias)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_aggregated_in_float32(dtype):
    x = torch.ones(3000, 1, dtype=dtype)
    pooled = GlobalReduce("sum")(x, torch.zeros(3000, dtype=torch.long))
    assert pooled.dtype == dtype and pooled.item() == torch.tensor(3000.0).to(dtype).item()
    so = SelectOutput(cluster_index=torch.zeros(3000, dtype=torch.long), num_supernodes=1)
    pooled, _ = AggrReduce(get_aggr("sum"))(x, so)
    assert pooled.dtype == dtype and pooled.item() == torch.tensor(3000.0).to(dtype).item()
    assert GlobalReduce("sum")(x.double()).dtype == torch.float64


@pytest.mark.parametrize("name", ["sum", "mean", "max", "std", "lstm"])
def test_padded_readout_without_reading_values(name, monkeypatch):
    torch.manual_seed(0)
    reduce = GlobalReduce(name, **({"in_channels": 2} if name == "lstm" else {}))
    x, mask = torch.rand(3, 4, 2), torch.tensor([[1, 1, 1, 1], [0, 1, 0, 1], [1, 0, 0, 0]]).bool()
    expected = reduce(x, mask=mask)
    monkeypatch.setattr("tgp.reduce.global_reduce.on_host", lambda *tensors: False)
    torch.testing.assert_close(reduce(x, mask=mask), expected)
