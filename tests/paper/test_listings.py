"""The workflows of the article that describes the library, each run on small graphs made here."""

import importlib

import pytest
import torch
import torch.nn.functional as F
from torch.nn import ELU, Linear, ModuleList
from torch_geometric.data import Batch
from torch_geometric.datasets import TUDataset
from torch_geometric.nn import ARMAConv, DenseGCNConv, DenseGINConv, GCNConv, GINConv

from tgp.connect import SparseConnect
from tgp.data import PoolDataLoader, PreCoarsening
from tgp.data.convert import table_to_data
from tgp.datasets.builtin import make_builtin
from tgp.lift import BaseLift
from tgp.poolers import get_pooler
from tgp.poolers._table import POOLERS
from tgp.reduce import AggrReduce, BaseReduce, GlobalReduce, get_aggr
from tgp.select import TopkSelect
from tgp.src import PoolingOutput, SRCPooling

HIDDEN = 8
CLASSES = 2


def importable(alias):
    """Whether the pooler of a table line is there; a missing module of ours only."""
    module = next(entry.target.partition(":")[0] for entry in POOLERS if entry.alias == alias)
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        return False
    return True


ALIASES = [entry.alias for entry in POOLERS if importable(entry.alias)]


def molecules(count):
    return table_to_data(make_builtin(f"molecules:num_graphs={count}")[0])


@pytest.fixture
def batch():
    torch.manual_seed(0)
    return Batch.from_data_list(molecules(6))


CONFIGS = [
    ("Batched Dense", {"batched": True, "sparse_output": False}),
    ("Batched Sparse", {"batched": True, "sparse_output": True}),
    ("Unbatched Dense", {"batched": False, "sparse_output": False}),
    ("Unbatched Sparse", {"batched": False, "sparse_output": True}),
]


def test_batched_vs_unbatched(batch):
    """The four modes give one embedding per graph, and the same one."""
    readout = GlobalReduce(reduce_op="sum")
    sparse_conv = GCNConv(4, HIDDEN, normalize=False, add_self_loops=False)
    dense_conv = DenseGCNConv(4, HIDDEN)
    with torch.no_grad():  # one convolution in two layouts
        dense_conv.lin.weight.copy_(sparse_conv.lin.weight)
    embeddings = {}
    for name, config in CONFIGS:
        torch.manual_seed(1)
        pooler = get_pooler("mincut", in_channels=4, k=10, **config)
        out = pooler(
            x=batch.x,
            adj=batch.edge_index,
            edge_weight=getattr(batch, "edge_weight", None),
            batch=batch.batch,
        )
        if pooler.sparse_output:
            x_next = sparse_conv(out.x, out.edge_index, out.edge_weight)
            graph_emb = readout(x_next, batch=out.batch)
        else:
            x_next = dense_conv(out.x, out.edge_index, mask=out.mask)
            graph_emb = readout(x_next, mask=out.mask)
        assert graph_emb.shape == (6, HIDDEN), name
        embeddings[name] = graph_emb
    torch.testing.assert_close(embeddings["Batched Dense"], embeddings["Unbatched Dense"])
    torch.testing.assert_close(embeddings["Batched Sparse"], embeddings["Unbatched Sparse"])


@pytest.mark.parametrize("pooler_name", ALIASES)
def test_graph_level(batch, pooler_name):
    """MP -> Pool -> MP -> Readout -> Head with any pooler; a step of the optimiser lowers the loss."""
    kwargs = {"k": 4, "ratio": 0.5, "scorer": "degree"}
    pooler = get_pooler(pooler_name, in_channels=HIDDEN, **kwargs)
    use_dense_branch = pooler.is_dense and not pooler.sparse_output
    conv_pre = GINConv(Linear(4, HIDDEN))
    width = HIDDEN * pooler.reducer.num_modes if pooler_name == "eigen" else HIDDEN
    conv_post = DenseGINConv(Linear(width, HIDDEN)) if use_dense_branch else GCNConv(width, HIDDEN)
    readout, head = GlobalReduce(reduce_op="sum"), Linear(HIDDEN, CLASSES)

    def loss():
        torch.manual_seed(0)
        x = F.relu(conv_pre(batch.x, batch.edge_index))
        out = pooler(x=x, adj=batch.edge_index, batch=batch.batch)
        if use_dense_branch:
            x_next = F.relu(conv_post(out.x, out.edge_index, mask=out.mask))
            graph_emb = readout(x_next, mask=out.mask)
        else:
            x_next = F.relu(conv_post(out.x, out.edge_index, out.edge_weight))
            graph_emb = readout(x_next, batch=out.batch)
        value = F.cross_entropy(head(graph_emb), batch.y)
        if out.loss is not None:
            value = value + sum(out.get_loss_value())
        return value

    modules = ModuleList([pooler, conv_pre, conv_post, head])
    optimizer = torch.optim.Adam(modules.parameters(), lr=1e-3)
    before = loss()
    for _ in range(5):
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()
    assert loss() < before


@pytest.mark.parametrize("cached", [True, False])
def test_node_level(cached):
    """Encoder, pooler, bottleneck, lift, and a decoder on the padded adjacency that the pooler keeps."""
    data = molecules(1)[0]
    x, edge_index, size = data.x, data.edge_index, data.num_nodes
    y = data.x.argmax(-1)
    torch.manual_seed(0)
    conv_enc = GINConv(Linear(4, HIDDEN))
    pooler = get_pooler(
        "mincut",
        in_channels=HIDDEN,
        k=size // 20,
        batched=True,
        sparse_output=False,
        cache_preprocessing=cached,
    )
    conv_pool = DenseGINConv(Linear(HIDDEN, HIDDEN // 2))
    conv_dec = DenseGINConv(Linear(HIDDEN // 2, 4))
    batch = torch.zeros(size, dtype=torch.long)

    h = F.relu(conv_enc(x, edge_index))
    out = pooler(x=h, adj=edge_index, edge_weight=None, batch=batch)
    x_pool = F.relu(conv_pool(out.x, out.edge_index, mask=out.mask))
    x_lift = pooler(x=x_pool, so=out.so, lifting=True, batch=batch, batch_pooled=out.batch)
    adj_dense = pooler.preprocessing_cache
    assert (adj_dense is not None) == cached
    if not cached:
        return
    logits = conv_dec(x_lift, adj_dense).squeeze(0)
    assert logits.shape == (size, 4)
    loss = F.nll_loss(F.log_softmax(logits, dim=-1)[: size // 2], y[: size // 2])
    loss = loss + sum(out.get_loss_value())
    loss.backward()
    assert all(p.grad is not None for m in (conv_enc, conv_pool, conv_dec, pooler) for p in m.parameters())


def test_clustering():
    """Two ARMA layers and a pooler, trained on the auxiliary losses alone."""

    class Net(torch.nn.Module):
        def __init__(self, in_channels, num_clusters, embed_dim=32):
            super().__init__()
            self.mp = ModuleList(
                [
                    ARMAConv(in_channels, embed_dim, num_layers=2),
                    ELU(inplace=True),
                    ARMAConv(embed_dim, embed_dim, num_layers=2),
                    ELU(inplace=True),
                ]
            )
            self.pooler = get_pooler(
                "mincut", in_channels=embed_dim, k=num_clusters, cache_preprocessing=True
            )

        def forward(self, x, edge_index, edge_weight):
            for i in range(0, len(self.mp), 2):
                x = self.mp[i](x, edge_index, edge_weight)
                x = self.mp[i + 1](x)
            out = self.pooler(x=x, adj=edge_index, edge_weight=edge_weight)
            aux_loss = sum(out.get_loss_value())
            return out.so.s, aux_loss

    data = molecules(1)[0]
    torch.manual_seed(0)
    net = Net(4, 3)
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
    values = []
    for _ in range(10):
        optimizer.zero_grad()
        s, loss = net(data.x, data.edge_index, None)
        loss.backward()
        optimizer.step()
        values.append(loss.item())
    assert s.shape == (1, data.num_nodes, 3)
    assert values[-1] < values[0]


def test_aggr_reduce(batch):
    """One aggregation as the reducer of a sparse pooler and as the readout behind it."""
    batch.x = F.pad(batch.x, (0, HIDDEN - 4))
    pooler = get_pooler("topk", in_channels=HIDDEN, ratio=0.25)
    aggr_name = "set2set"
    aggr_kwargs = {"in_channels": HIDDEN, "processing_steps": 3}
    pooler.reducer = AggrReduce(get_aggr(aggr_name, **aggr_kwargs))
    readout = GlobalReduce(reduce_op=aggr_name, **aggr_kwargs)
    sparse_conv, head = GCNConv(2 * HIDDEN, HIDDEN), Linear(2 * HIDDEN, CLASSES)  # set2set doubles the width
    out = pooler(
        x=batch.x,
        adj=batch.edge_index,
        edge_weight=getattr(batch, "edge_weight", None),
        batch=batch.batch,
    )
    x_next = sparse_conv(out.x, out.edge_index, out.edge_weight)
    graph_emb = readout(x_next, batch=out.batch)
    logits = head(graph_emb)
    loss = F.cross_entropy(logits, batch.y)
    if out.loss is not None:
        loss = loss + sum(out.get_loss_value())
    loss.backward()
    assert logits.shape == (6, CLASSES)
    assert all(p.grad is not None for p in pooler.reducer.parameters())


def test_swap(batch):
    """The connector of a top-k pooler replaced by Kron reduction."""
    kron = pytest.importorskip("tgp.connect.kron_conn")
    pooler = get_pooler("topk", in_channels=4, ratio=0.5)
    induced = pooler(x=batch.x, adj=batch.edge_index, batch=batch.batch)
    pooler.connector = kron.KronConnect()
    out = pooler(x=batch.x, adj=batch.edge_index, batch=batch.batch)
    torch.testing.assert_close(out.x, induced.x)
    assert out.edge_index.size(1) > induced.edge_index.size(1), "paths over dropped nodes become edges"


def test_topk_written_by_hand(batch):
    """A pooler put together from the four stages, with a forward of its own."""

    class TopkPooling(SRCPooling):
        def __init__(self, in_channels, ratio):
            super().__init__(
                selector=TopkSelect(in_channels=in_channels, ratio=ratio),
                reducer=BaseReduce(),
                connector=SparseConnect(),
                lifter=BaseLift(),
            )

        def forward(self, x, edge_index, batch=None):
            select_out = self.select(x=x, batch=batch)
            x_pooled, batch_pooled = self.reduce(x=x, so=select_out, batch=batch)
            edge_index_pooled, _ = self.connect(so=select_out, edge_index=edge_index)
            return PoolingOutput(x=x_pooled, edge_index=edge_index_pooled, batch=batch_pooled, so=select_out)

    mine = TopkPooling(4, 0.5)
    ready = get_pooler("topk", in_channels=4, ratio=0.5)
    ready.load_state_dict(mine.state_dict())
    a = mine(batch.x, batch.edge_index, batch.batch)
    b = ready(x=batch.x, adj=batch.edge_index, batch=batch.batch)
    torch.testing.assert_close(a.x, b.x)
    assert torch.equal(a.edge_index, b.edge_index) and torch.equal(a.batch, b.batch)


SCHEDULES = {
    "same at every level": ["sep", "sep", "sep"],
    "parameters per level": [("nmf", {"k": 8}), ("nmf", {"k": 4})],
    "mixed": ["ndp", ("eigen", {"k": 4, "num_modes": 3})],
}


def write_tu(root, graphs):
    """Raw files of a TU collection, so that nothing is downloaded."""
    raw = root / "TINY" / "raw"
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
        (raw / f"TINY_{name}.txt").write_text("\n".join(map(str, rows)) + "\n")
    return str(root)


@pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=SCHEDULES)
def test_precoarsening(tmp_path, schedule):
    names = {item if isinstance(item, str) else item[0] for item in schedule}
    missing = [name for name in names if not importable(name)]
    if missing:
        pytest.skip(f"not there yet: {', '.join(missing)}")
    dataset = TUDataset(
        root=write_tu(tmp_path, molecules(8)), name="TINY", pre_transform=PreCoarsening(poolers=schedule)
    )
    loader = PoolDataLoader(dataset, batch_size=4, shuffle=True)
    seen = 0
    for loaded in loader:
        seen += loaded.num_graphs
        assert len(loaded.pooled_data) == len(schedule)
        x, nodes = loaded.x, loaded.num_nodes
        for level in loaded.pooled_data:
            assert level.so.num_nodes == nodes
            x, _ = BaseReduce()(x=x, so=level.so)
            x = x.flatten(0, 1) if x.dim() == 3 else x
            nodes = level.num_nodes
            assert x.size(0) == nodes
    assert seen == 8
