"""PoolingOutput and the methods of SRCPooling."""

import pytest
import torch

from tgp.connect import SparseConnect
from tgp.lift import BaseLift
from tgp.reduce import BaseReduce
from tgp.select import IdentitySelect, Select, SelectOutput
from tgp.src import PoolingOutput, Precoarsenable, SRCPooling

PATH = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])


class Halves(Select):
    """Selector that assigns the first and the second half of the nodes, and counts its calls."""

    calls = 0

    def forward(self, x=None, edge_index=None, *, num_nodes=None, batch=None, **kwargs):
        self.calls += 1
        return SelectOutput(cluster_index=torch.arange(num_nodes) * 2 // num_nodes, num_supernodes=2)


def pooler(cached=False):
    return SRCPooling(Halves(), BaseReduce(), BaseLift(), SparseConnect(count_edges=True), cached=cached)


def test_output_iterates_and_converts():
    so = SelectOutput(s=torch.eye(2), batch=torch.tensor([0, 0]))
    out = PoolingOutput(x=torch.ones(2, 3), edge_index=PATH[:, :2], so=so, loss={"a": torch.tensor(1.0)})
    _, _, edge_weight, batch, mask, so_, loss = out
    assert (
        edge_weight is None
        and batch is None
        and mask.tolist() == [[True, True]]
        and so_ is so
        and "a" in loss
    )
    assert out.has_loss and out.get_loss_value("a") == 1 and out.get_loss_value() == [1]
    with pytest.raises(KeyError):
        out.get_loss_value("b")
    data = out.as_data()
    assert data.num_nodes == 2 and "loss" not in data and "edge_weight" not in data and data.mask is not None
    assert repr(out) == (
        "PoolingOutput(so=[2, 2], x=[2, 3], edge_index=[2, 2], edge_weight=None, batch=None, mask=[1, 2], loss=['a'])"
    )
    assert (
        PoolingOutput().get_loss_value("a") == 0
        and PoolingOutput(batch=torch.zeros(4)).as_data().num_nodes == 4
    )
    assert PoolingOutput(so=so).as_data().num_nodes == 2


def test_one_forward_pools_and_lifts():
    model = pooler()
    x = torch.arange(8.0).view(4, 2)
    out = model(x=x, adj=PATH, batch=torch.zeros(4, dtype=torch.long))
    assert (
        out.x.tolist() == [[2, 4], [10, 12]]
        and out.edge_weight.tolist() == [1, 1]
        and out.batch.tolist() == [0, 0]
    )
    assert model(x=out.x, so=out.so, lifting=True).tolist() == [[2, 4], [2, 4], [10, 12], [10, 12]]
    with pytest.raises(NotImplementedError, match="edge_index cannot be None, got adj=None"):
        model(x=x)


def test_traits_repr_and_signatures():
    model = pooler()
    assert model.is_sparse and not model.is_dense and not model.has_loss and not model.is_trainable
    assert not model.is_precoarsenable and SRCPooling.data_transforms() is None
    assert repr(model).startswith("SRCPooling(\n\tselect=Halves(")
    assert repr(model).splitlines()[-2].startswith("\tconnect=SparseConnect(") and repr(model).endswith("\n)")
    assert SRCPooling.get_signature().args == ["selector", "reducer", "lifter", "connector", "cached"]
    assert SRCPooling.get_forward_signature().args[:5] == ["x", "adj", "edge_weight", "so", "batch"]
    empty = SRCPooling()
    empty.reset_parameters()
    for use in (lambda: empty.is_dense, empty.select, empty.reduce, empty.lift, empty.connect):
        with pytest.raises(NotImplementedError):
            use()
    assert model.preprocessing("x", "e") == ("x", "e", None)


def test_the_cache_detects_a_changed_graph():
    model = pooler(cached=True)
    x = torch.rand(4, 2)
    first = model(x=x, adj=PATH)
    again = model(x=2 * x, adj=PATH)
    assert model.selector.calls == 1 and again.edge_index is first.edge_index
    assert again.so.cluster_index is first.so.cluster_index
    assert model(x=x, adj=PATH.clone()).so.cluster_index is first.so.cluster_index
    other = model(x=torch.rand(5, 2), adj=PATH)
    assert model.selector.calls == 2 and other.so.num_nodes == 5
    edges = PATH.clone()
    model(x=x, adj=edges)
    edges[0, 0] = 3
    changed = model(x=x, adj=edges)
    assert model.selector.calls == 4
    assert changed.edge_index is not other.edge_index
    model.clear_cache()
    model(x=x, adj=edges)
    assert model.selector.calls == 5


def test_moving_the_module_clears_the_cache():
    model = pooler(cached=True)
    model(x=torch.rand(4, 2), adj=PATH, edge_weight=torch.ones(6))
    model.double()
    out = model(x=torch.rand(4, 2).double(), adj=PATH, edge_weight=torch.ones(6).double())
    assert out.edge_weight.dtype == torch.float64 and model.selector.calls == 2


def test_identity_select_finds_the_number_of_nodes():
    select = IdentitySelect()
    assert select(num_nodes=3).cluster_index.tolist() == [0, 1, 2]
    assert select(edge_index=PATH, num_nodes=6).num_nodes == 6 and select(edge_index=PATH).num_nodes == 4
    coo = torch.sparse_coo_tensor(PATH, torch.ones(6), (5, 5), check_invariants=False)
    assert select(edge_index=coo, other=1).num_nodes == 5
    with pytest.raises(NotImplementedError):
        select()


def test_precoarsenable_interface():
    with pytest.raises(NotImplementedError):
        Precoarsenable().precoarsening()
    with pytest.raises(ValueError, match="'levels' must be >= 1"):
        Precoarsenable().multi_level_precoarsening(0)
