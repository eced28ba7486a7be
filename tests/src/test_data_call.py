"""``pooler(data)``: pool a graph or a batch of PyG with all attributes, against the engine and plain Python."""

import numpy as np
import pytest
import torch
from torch_geometric.data import Batch, Data, HeteroData

from tgp.engine.carry import CarryRules, resolve
from tgp.engine.carry_fields import carry_fields
from tgp.engine.coarsening import coarsen
from tgp.errors import InputError, TgpError, UnknownNameError
from tgp.poolers import get_pooler
from tgp.ragged import Field, GraphTable
from tgp.testing.cases import pooler_cases

SIZES = (9, 6, 11)


def graph(seed, dtype=torch.float32):
    g = torch.Generator().manual_seed(seed)
    n = SIZES[seed]
    ring = torch.stack([torch.arange(n), (torch.arange(n) + 1) % n])
    more = torch.randint(0, n, (2, n), generator=g)
    edges = torch.cat([ring, more[:, more[0] != more[1]]], 1)
    edges = torch.unique(torch.cat([edges, edges.flip(0)], 1), dim=1)
    e = edges.size(1)
    return Data(
        x=torch.randn(n, 4, generator=g, dtype=dtype),
        edge_index=edges,
        pos=torch.randn(n, 3, generator=g, dtype=dtype),
        y=torch.randint(0, 3, (n,), generator=g),
        train_mask=torch.rand(n, generator=g) > 0.5,
        kind=torch.randint(0, 2, (n, 2), generator=g),
        edge_attr=torch.randn(e, 2, generator=g, dtype=dtype),
        edge_kind=torch.randint(0, 4, (e,), generator=g),
        target=torch.tensor([seed]),
        name=f"graph {seed}",
    )


def batch():
    return Batch.from_data_list([graph(i) for i in range(3)])


def table(data):
    """Return the arrays of a batch for the engine."""
    ptr, edge_ptr = data.ptr.numpy(), data._slice_dict["edge_index"].numpy()
    local = data.edge_index.numpy() - np.repeat(ptr[:-1], np.diff(edge_ptr))
    fields = {"edge_index": Field("edge_index", local, edge_ptr, -1, shifted=True)}
    for name in ("pos", "y", "train_mask", "kind"):
        fields[name] = Field(name, data[name].numpy(), ptr)
    for name in ("edge_attr", "edge_kind"):
        fields[name] = Field(name, data[name].numpy(), edge_ptr)
    return GraphTable(ptr, fields)


RULES = [
    "auto",
    "pos=sum,edge_attr=sum,kind=all",
    "pos=max,edge_attr=stats,kind=any",
    "pos=stats,edge_attr=min,kind=first",
    "pos=first,edge_attr=first,kind=sum,edge_kind=mean",
    "pos=min,edge_attr=max,kind=stats,y=max",
]


@pytest.mark.parametrize("alias", ["graclus", "kmis", "ndp", "sep", "nopool", "eigen"])
@pytest.mark.parametrize("rules", RULES)
def test_equal_to_the_engine_bit_for_bit(alias, rules):
    data = batch()
    options = {"kmis": {"scorer": "degree"}, "eigen": {"k": 3}}.get(alias, {})
    out = get_pooler(alias, **options)(data, carry=rules)
    given = table(data)
    params = {"kmis": "kmis:scorer=degree", "eigen": "eigen:k=3"}.get(alias, alias)
    level = carry_fields(
        given, coarsen(given.to_block(), params), resolve(CarryRules.parse(rules), given)
    ).levels[0]
    assert level.fields, "nothing was carried"
    for name, field in level.fields.items():
        got, expected = out[name], torch.from_numpy(field.values)
        assert got.dtype == expected.dtype and torch.equal(got, expected), name
    extra = {"edge_attr", "edge_kind", "pos", "kind", "y", "y_train"} & set(out.keys())
    assert extra <= set(level.fields)


@pytest.mark.parametrize("case", list(pooler_cases()), ids=str)
def test_every_pooler_pools_lifts_and_pools_again(case):
    data = batch()
    before = {
        name: value.clone() for name, value in data.to_dict().items() if isinstance(value, torch.Tensor)
    }
    pooler = case.build()
    out = pooler(data)
    assert isinstance(out, Batch) and out.num_graphs == 3 and out.batch.numel() == out.num_nodes
    assert torch.equal(data.target, out.target) and out.name == data.name
    plain = pooler(
        x=data.x,
        adj=data.edge_index,
        batch=data.batch,
        batch_size=3,
        **({"mask": None} if pooler.is_dense else {}),
    )
    if plain.x.dim() == 2 and case.alias != "maxcut":
        assert torch.equal(out.x, plain.x)
    assert out.x.size(0) == out.num_nodes == out.num_members.numel()
    lifted = pooler(out, lifting=True)
    assert lifted.shape == data.x.shape
    parts = out.to_data_list()
    assert [int(p.target) for p in parts] == [0, 1, 2]
    assert all(p.edge_index.numel() == 0 or int(p.edge_index.max()) < p.num_nodes for p in parts)
    assert torch.equal(torch.cat([p.pos for p in parts]), out.pos)
    again = case.build(in_channels=out.x.size(1))(out)
    dropped = out.num_members.sum() - again.num_members.sum()
    assert again.num_nodes <= out.num_nodes and dropped > -1e-3
    one = pooler(graph(0))
    assert type(one) is Data and one.batch is None and one.pos.size(0) == one.num_nodes
    for name, value in before.items():
        assert torch.equal(data[name], value), f"{name} of the input was changed"


def test_a_second_level_counts_members():
    data = batch()
    pooler = get_pooler("graclus")
    one = pooler(data)
    two = pooler(one)
    cluster = two.so.cluster[one.so.cluster]
    for c in range(two.num_nodes):
        inside = cluster == c
        torch.testing.assert_close(two.pos[c], data.pos[inside].mean(0))
        assert two.num_members[c] == inside.sum()
    sums = pooler(pooler(data, carry="pos=sum"), carry="pos=sum").pos
    torch.testing.assert_close(sums.sum(0), data.pos.sum(0))


def test_labels_of_training_members():
    data = Data(
        edge_index=torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]]),
        y=torch.tensor([2, 1, 0, 0]),
        train_mask=torch.tensor([True, False, False, False]),
        num_nodes=4,
    )
    out = get_pooler("graclus")(data)
    assert out.y.tolist() == [1, 0] and out.y_purity.tolist() == [0.5, 1.0]
    assert out.y_train.tolist() == [2, -1] and out.y_mixed.tolist() == [False, False]
    two = get_pooler("nopool")(out)
    assert two.y_train.tolist() == [2, -1]


@pytest.mark.parametrize("batched", [True, False])
def test_soft_assignments(batched):
    data = batch()
    torch.manual_seed(0)
    pooler = get_pooler("mincut", in_channels=4, k=3, batched=batched)
    out = pooler(data, carry="auto,kind=max")
    s = pooler(x=data.x, adj=data.edge_index, batch=data.batch).so
    s = s.to_nodes(s.s)
    full = torch.zeros(s.size(0), 3, 3)
    full[torch.arange(s.size(0)), data.batch] = s.detach()
    full = full.view(s.size(0), 9)
    torch.testing.assert_close(out.num_members, full.sum(0))
    torch.testing.assert_close(out.pos, full.t() @ data.pos / full.sum(0)[:, None])
    best = data.batch * 3 + s.argmax(1)
    for c in range(9):
        if (best == c).any():
            assert torch.equal(out.kind[c], data.kind[best == c].max(0).values)
            assert out.y[c] == data.y[best == c].mode().values
    adj = torch.zeros(26, 26, 2)
    adj.index_put_(tuple(data.edge_index), data.edge_attr, accumulate=True)
    total = full.t() @ (adj.abs().sum(-1) > 0).float() @ full
    mean = torch.einsum("ik,ijd,jl->kld", full, adj, full) / total.clamp(min=1e-9)[..., None]
    torch.testing.assert_close(out.edge_attr, mean[tuple(out.edge_index)])
    assert "edge_kind" not in out  # a majority of edges needs merged edges
    with pytest.raises(InputError, match=r"edge_kind.*soft"):
        pooler(data, carry="auto,edge_kind=majority")
    assert pooler(data, carry={"edge_kind": "mean"}).edge_kind.shape == (out.num_edges,)


def test_gradients_reach_parameters_and_attributes():
    data = batch()
    data.pos.requires_grad_()
    data.edge_attr.requires_grad_()
    torch.manual_seed(0)
    pooler = get_pooler("mincut", in_channels=4, k=3)
    out = pooler(data)
    (out.pos.square().sum() + out.edge_attr.square().sum() + sum(out.loss.values())).backward()
    assert data.pos.grad.abs().sum() > 0 and data.edge_attr.grad.abs().sum() > 0
    assert all(p.grad is not None for p in pooler.parameters())
    topk = get_pooler("topk", in_channels=4)
    topk(batch()).x.sum().backward()
    assert all(p.grad is not None for p in topk.parameters())


def test_gradcheck_of_means():
    data = graph(1, torch.float64)

    def run(pos, attr):
        data.pos, data.edge_attr = pos, attr
        out = get_pooler("graclus")(data)
        return out.pos, out.edge_attr

    assert torch.autograd.gradcheck(run, (data.pos.requires_grad_(), data.edge_attr.requires_grad_()))


def test_wrong_calls():
    data, pooler = graph(0), get_pooler("graclus")
    for name, value in {"adj": data.edge_index, "edge_attr": data.edge_attr, "batch": data.y}.items():
        with pytest.raises(InputError, match=f"{name} is given twice"):
            pooler(data, **{name: value})
    with pytest.raises(InputError, match="expected Data or Batch, got HeteroData"):
        pooler(HeteroData())
    with pytest.raises(UnknownNameError, match="Unknown attribute 'poss'"):
        pooler(data, carry="poss=mean")
    with pytest.raises(UnknownNameError, match="Unknown reduction"):
        pooler(data, carry={"pos": "median"})
    with pytest.raises(TgpError, match="cannot be carried"):
        pooler(data, carry="target=mean")
    with pytest.raises(InputError, match="rule for 'x'"):
        pooler(data, carry="x=mean")
    with pytest.raises(InputError, match="no edges"):
        pooler(Data(x=data.x))
    with pytest.raises(InputError, match="pooled graph"):
        pooler(data, lifting=True)
    with pytest.raises(TgpError, match="carry"):
        pooler(x=data.x, adj=data.edge_index, carry="auto")
    with pytest.raises(TgpError, match="x must be a Tensor"):
        pooler([data], data.edge_index)


def test_nothing_else_is_kept():
    data = graph(0)
    data.face = torch.zeros(3, 2, dtype=torch.long)
    data.words = ["a"] * data.num_nodes
    out = get_pooler("graclus")(data, carry="none")
    assert set(out.keys()) == {
        "x", "num_members", "edge_index", "target", "name", "num_nodes", "so", "loss"
    }  # fmt: skip
    assert "face" not in get_pooler("graclus")(data) and "words" not in get_pooler("graclus")(data)
