"""The listings of stages and schedules in the article, line by line, with the parts that they omit.

Lines of a listing are unchanged. Each test compares the result with plain torch.
"""

import pytest
import torch
import torch.nn.functional as F
import torch_geometric.nn as pyg
from torch.nn import Linear
from torch_geometric.data import Data
from torch_geometric.datasets import TUDataset
from torch_geometric.utils import get_laplacian, to_dense_adj

from tgp.connect import KronConnect, SparseConnect
from tgp.data import PoolDataLoader, PreCoarsening
from tgp.datasets import load_graphs
from tgp.lift import BaseLift
from tgp.poolers import get_pooler
from tgp.reduce import AggrReduce, BaseReduce, GlobalReduce, get_aggr
from tgp.select import TopkSelect
from tgp.src import PoolingOutput, SRCPooling

in_channels, hidden_channels, num_classes = 4, 8, 2
task_loss = F.cross_entropy


def write_tu(root, graphs):
    """Write raw files of a TU collection, so that nothing is downloaded."""
    raw = root / "MUTAG" / "raw"
    raw.mkdir(parents=True)
    start, edges, graph_ids, labels = 1, [], [], []
    for number, data in enumerate(graphs, start=1):
        edges += [f"{a + start}, {b + start}" for a, b in data.edge_index.t().tolist()]
        graph_ids += [number] * data.num_nodes
        labels += data.x.argmax(-1).tolist()
        start += data.num_nodes
    for name, rows in {
        "A": edges,
        "graph_indicator": graph_ids,
        "graph_labels": [int(data.y) for data in graphs],
        "node_labels": labels,
    }.items():
        (raw / f"MUTAG_{name}.txt").write_text("\n".join(map(str, rows)) + "\n")


def adjacency(edge_index, edge_weight, size):
    return to_dense_adj(edge_index, edge_attr=edge_weight, max_num_nodes=size)[0]


def test_precoarsening(tmp_path):
    """Levels of three schedules equal those of the layers, and the levels of SEP come from one coding tree."""
    write_tu(tmp_path, load_graphs("molecules:num_graphs=8"))

    # Same pooler at every level.
    sep_levels = PreCoarsening(poolers=["sep", "sep", "sep"])
    # Same family, different configuration at each level.
    nmf_levels = PreCoarsening(
        poolers=[
            ("nmf", {"k": 8}),
            ("nmf", {"k": 4}),
        ]
    )
    # Mixed hierarchy: NDP first, then EigenPooling.
    mixed_levels = PreCoarsening(
        poolers=[
            "ndp",
            ("eigen", {"k": 4, "num_modes": 3}),
        ]
    )
    dataset = TUDataset(
        root=str(tmp_path),
        name="MUTAG",
        pre_transform=mixed_levels,
    )
    loader = PoolDataLoader(dataset, batch_size=32, shuffle=True)

    (loaded,) = loader
    assert loaded.num_graphs == 8
    assert [level.num_graphs for level in loaded.pooled_data] == [8, 8]
    plain = [Data(x=data.x, edge_index=data.edge_index) for data in dataset]
    nmf = [nmf_levels(data.clone()) for data in plain]
    online_nmf = [get_pooler("nmf", k=k, sparse_output=True) for k in (8, 4)]
    online_mixed = [get_pooler("ndp"), get_pooler("eigen", k=4, num_modes=3, sparse_output=True)]
    for poolers, graphs in ((online_nmf, nmf), (online_mixed, dataset)):
        for data in graphs:
            size, edges = data.num_nodes, (data.edge_index, None)
            for number, (pooler, level) in enumerate(zip(poolers, data.pooled_data, strict=True)):
                online = pooler(x=torch.ones(size, 1), adj=edges[0], edge_weight=edges[1], level=number)
                size, edges = level.num_nodes, (level.edge_index, level.edge_weight)
                assert torch.equal(online.edge_index, edges[0]) and torch.equal(online.edge_weight, edges[1])
    for data in plain:
        levels = sep_levels(data.clone()).pooled_data
        before = adjacency(data.edge_index, None, data.num_nodes)
        for number, level in enumerate(levels):
            members = F.one_hot(level.so.cluster_index, level.num_nodes).float()  # one supernode per node
            between = (members.t() @ before @ members).fill_diagonal_(0)
            if number == 0:
                between = between.sign()  # edges without a weight do not add up
            root = between.sum(1).clamp(min=1e-9).sqrt()  # weights are normalised by degree
            before = adjacency(level.edge_index, level.edge_weight, level.num_nodes)
            torch.testing.assert_close(before, between / root[:, None] / root)
        assert data.num_nodes > levels[0].num_nodes > levels[1].num_nodes > levels[2].num_nodes >= 1


def test_aggr_reduce(batch):
    """One aggregation is used as the reducer of a sparse pooler and as the readout."""
    batch.x = torch.randn(batch.num_nodes, hidden_channels)
    sparse_conv, head = (
        pyg.GCNConv(2 * hidden_channels, hidden_channels),
        Linear(2 * hidden_channels, num_classes),
    )

    pooler = get_pooler("topk", in_channels=hidden_channels, ratio=0.25)

    # Swap pooler's reduce stage with a PyG-backed aggregator.
    aggr_name = "set2set"
    aggr_kwargs = {"in_channels": hidden_channels, "processing_steps": 3}
    pooler.reducer = AggrReduce(get_aggr(aggr_name, **aggr_kwargs))

    # Use the same aggregation family at graph readout.
    readout = GlobalReduce(reduce_op=aggr_name, **aggr_kwargs)

    out = pooler(
        x=batch.x, adj=batch.edge_index, edge_weight=getattr(batch, "edge_weight", None), batch=batch.batch
    )

    x_next = sparse_conv(out.x, out.edge_index, out.edge_weight)
    graph_emb = readout(x_next, batch=out.batch)

    logits = head(graph_emb)
    loss = task_loss(logits, batch.y)
    if out.loss is not None:
        loss = loss + sum(out.get_loss_value())

    loss.backward()
    for module in (pooler.reducer, readout):
        assert all(parameter.grad is not None for parameter in module.parameters())
    # By hand: a supernode is one kept node, so its aggregation sees one row.
    kept = batch.x[out.so.node_index] * out.so.weight.view(-1, 1)
    alone = pooler.reducer.aggr(kept, index=torch.arange(len(kept)))
    torch.testing.assert_close(out.x, alone[out.so.cluster_index.argsort()])
    plain = pyg.aggr.Set2Set(hidden_channels, processing_steps=3)
    plain.load_state_dict({name.removeprefix("aggr."): value for name, value in readout.state_dict().items()})
    order = out.batch.argsort(stable=True)
    torch.testing.assert_close(graph_emb, plain(x_next[order], out.batch[order]))


def test_topk_from_its_stages(batch):
    """A pooler that is built from four stages with its own forward gives the results of ``TopkPooling``."""

    class TopkPooling(SRCPooling):
        def __init__(self, in_channels, ratio, **kwargs):
            super().__init__(
                selector=TopkSelect(in_channels=in_channels, ratio=ratio, **kwargs),
                reducer=BaseReduce(),
                connector=SparseConnect(),
                lifter=BaseLift(),
            )

        def forward(self, x, edge_index, batch=None):
            # 1. Select nodes via the TopkSelect component
            select_out = self.select(x=x, batch=batch)

            # 2. Reduce features via the BaseReduce component
            x_pooled, batch_pooled = self.reduce(x=x, so=select_out, batch=batch)

            # 3. Connect graph via the SparseConnect component
            edge_index_pooled, _ = self.connect(so=select_out, edge_index=edge_index)

            # 4. Return standardized output
            return PoolingOutput(x=x_pooled, edge_index=edge_index_pooled, batch=batch_pooled, so=select_out)

    batch.x = torch.randn(batch.num_nodes, in_channels)  # no ties
    mine = TopkPooling(in_channels, 0.5)
    ready = get_pooler("topk", in_channels=in_channels, ratio=0.5)
    ready.load_state_dict(mine.state_dict())
    a = mine(batch.x, batch.edge_index, batch.batch)
    b = ready(x=batch.x, adj=batch.edge_index, batch=batch.batch)
    torch.testing.assert_close(a.x, b.x)
    assert torch.equal(a.edge_index, b.edge_index) and torch.equal(a.batch, b.batch)
    peer = pyg.TopKPooling(in_channels, ratio=0.5)  # and what PyG's layer gives
    with torch.no_grad():
        peer.select.weight.copy_(mine.selector.weight.view_as(peer.select.weight))
    x, edge_index, _, pooled, _, _ = peer(batch.x, batch.edge_index, batch=batch.batch)
    assert torch.equal(pooled.bincount(), a.batch.bincount())
    torch.testing.assert_close(x.sum(0), a.x.sum(0))
    assert edge_index.size(1) == a.edge_index.size(1)


@pytest.mark.filterwarnings("ignore:Kron reduction after a selection")
def test_swap(batch):
    """With Kron reduction as connector, a top-k pooler gives the Schur complement of the Laplacian."""
    # 1. Instantiate a standard TopK pooler
    pooler = get_pooler("topk", in_channels=64, ratio=0.5)

    # 2. Hot-swap the connector component
    # Replace the standard connect operation with the one based on Kron connect
    pooler.connector = KronConnect()

    data = batch.get_example(0)
    out = pooler(x=torch.randn(data.num_nodes, 64), adj=data.edge_index)
    laplacian = adjacency(*get_laplacian(data.edge_index), data.num_nodes).double()
    kept = torch.empty(out.so.num_supernodes, dtype=torch.long)
    kept[out.so.cluster_index] = out.so.node_index
    rest = torch.ones(data.num_nodes, dtype=torch.bool).index_fill_(0, kept, False).nonzero().view(-1)
    inner = torch.linalg.solve(laplacian[rest][:, rest], laplacian[rest][:, kept])
    weights = -(laplacian[kept][:, kept] - laplacian[kept][:, rest] @ inner).fill_diagonal_(0)
    found = adjacency(out.edge_index, out.edge_weight, out.so.num_supernodes).double()
    torch.testing.assert_close(found, weights.where(weights > 1e-2, 0), atol=1e-5, rtol=1e-5)
