"""The listings of models in the article, line by line, with the parts that they omit.

Lines of a listing are unchanged. Each test compares the result with plain torch.
"""

import pytest
import torch
import torch.nn.functional as F
import torch_geometric.nn as pyg
from torch.nn import ELU, LayerNorm, Linear, ModuleList, Sequential
from torch_geometric.nn import ARMAConv, GCNConv
from torch_geometric.utils import to_dense_adj

from tgp.poolers import get_pooler, pooler_map
from tgp.reduce import GlobalReduce

in_channels, hidden_channels, num_classes = 4, 8, 2
task_loss = F.cross_entropy


def network(inputs, outputs):
    """Return the network of a GIN layer. It has a normalization, because GIN and pooling sum many rows."""
    return Sequential(Linear(inputs, outputs), LayerNorm(outputs))


class GINConv(torch.nn.Module):
    """GIN layer with the arguments of the listings: two sizes instead of a network, and edge weights, which it ignores."""

    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.conv = pyg.GINConv(network(in_channels, out_channels))

    def forward(self, x, edge_index, edge_weight=None):
        return self.conv(x, edge_index)


class DenseGINConv(pyg.DenseGINConv):
    def __init__(self, in_channels, out_channels):
        super().__init__(network(in_channels, out_channels))


def test_batched_vs_unbatched(batch):
    """Four modes of one pooler with the same parameters give the same embedding of every graph."""
    hidden_channels = in_channels  # the pooler stands first here
    sparse_conv = pyg.GraphConv(hidden_channels, 8)
    dense_conv = pyg.DenseGraphConv(hidden_channels, 8)
    dense_conv.load_state_dict(sparse_conv.state_dict())
    embeddings = {}

    configs = [
        ("Batched Dense", dict(batched=True, sparse_output=False)),  # noqa: C408
        ("Batched Sparse", dict(batched=True, sparse_output=True)),  # noqa: C408
        ("Unbatched Dense", dict(batched=False, sparse_output=False)),  # noqa: C408
        ("Unbatched Sparse", dict(batched=False, sparse_output=True)),  # noqa: C408
    ]

    readout = GlobalReduce(reduce_op="sum")

    for name, config in configs:
        torch.manual_seed(1)
        pooler = get_pooler(
            "mincut",
            in_channels=hidden_channels,
            k=10,
            **config,
        )
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

        embeddings[name] = graph_emb
        assert (out.x.dim() == 2) == config["sparse_output"]

    expected = embeddings.pop("Batched Dense")
    assert expected.shape == (6, 8) and expected.std(0).min() > 1e-3
    for name, found in embeddings.items():
        torch.testing.assert_close(found, expected, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.parametrize("pooler_name", list(pooler_map))
def test_graph_level(batch, pooler_name):
    """Every pooler gives one embedding per graph, and steps of an optimizer decrease the loss."""
    batch.edge_weight = None
    pooler_kwargs = {"k": 4, "ratio": 0.5, "scorer": "degree", "num_modes": 1}

    pooler = get_pooler(pooler_name, in_channels=hidden_channels, **pooler_kwargs)

    # Branch the post-pooling block on the pooler's flags.
    use_dense_branch = pooler.is_dense and not pooler.sparse_output
    conv_pre = GINConv(in_channels, hidden_channels)
    conv_post = (DenseGINConv if use_dense_branch else GCNConv)(hidden_channels, hidden_channels)
    readout = GlobalReduce(reduce_op="sum")
    head = Linear(hidden_channels, num_classes)

    def step():
        torch.manual_seed(0)  # some poolers draw
        # Forward pass: MP -> Pool -> MP -> Readout -> Head.
        x = F.relu(conv_pre(batch.x, batch.edge_index, batch.edge_weight))
        out = pooler(x=x, adj=batch.edge_index, batch=batch.batch)
        if use_dense_branch:
            x_next = F.relu(conv_post(out.x, out.edge_index, mask=out.mask))
            graph_emb = readout(x_next, mask=out.mask)
        else:
            x_next = F.relu(conv_post(out.x, out.edge_index, out.edge_weight))
            graph_emb = readout(x_next, batch=out.batch)
        logits = head(graph_emb)
        loss = task_loss(logits, batch.y)
        if out.loss is not None:
            loss = loss + sum(out.get_loss_value())
        assert logits.shape == (6, num_classes)
        return out, loss

    assert (step()[0].loss is not None) == pooler.has_loss
    parts = ModuleList([pooler, conv_pre, conv_post, head])
    optimizer = torch.optim.Adam(parts.parameters(), lr=1e-3)
    losses = []
    for _ in range(6):
        optimizer.zero_grad()
        _, loss = step()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]


class NodeNet(torch.nn.Module):
    def __init__(self, in_channels, hidden_channels, num_classes, num_nodes):
        super().__init__()
        self.conv_enc = GINConv(in_channels, hidden_channels)
        self.pooler = get_pooler(
            "mincut",
            in_channels=hidden_channels,
            k=num_nodes // 20,
            batched=True,
            sparse_output=False,
            cache_preprocessing=True,
        )

        self.conv_pool = DenseGINConv(hidden_channels, hidden_channels // 2)
        self.conv_dec = DenseGINConv(hidden_channels // 2, num_classes)

    def forward(self, x, edge_index, edge_weight, batch, y, train_mask):
        # Forward pass
        x = F.relu(self.conv_enc(x, edge_index, edge_weight))
        out = self.pooler(x=x, adj=edge_index, edge_weight=edge_weight, batch=batch)
        x_pool = F.relu(self.conv_pool(out.x, out.edge_index, mask=out.mask))

        # Important: use lifting=True to switch to the lifting pass.
        x_lift = self.pooler(x=x_pool, so=out.so, lifting=True, batch=batch, batch_pooled=out.batch)
        adj_dense = self.pooler.preprocessing_cache
        logits = self.conv_dec(x_lift, adj_dense)

        loss = F.nll_loss(F.log_softmax(logits, dim=-1)[train_mask], y[train_mask])
        if out.loss is not None:
            loss = loss + sum(out.get_loss_value())
        return logits, loss, (out.so.s, x_pool, x_lift, adj_dense)


def test_node_level(communities):
    """Lifted features are S X', the decoder gets the input graph, and unlabelled nodes are classified correctly."""
    data = communities
    seen = torch.rand(1, data.num_nodes) < 0.1  # with the leading dimension of the padded graph
    words = (data.x, data.edge_index, None, torch.zeros(200, dtype=torch.long), data.y.view(1, -1), seen)
    net = NodeNet(5, 32, 5, data.num_nodes)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    for _ in range(100):
        optimizer.zero_grad()
        logits, loss, parts = net(*words)
        loss.backward()
        optimizer.step()
    assert all(parameter.grad is not None for parameter in net.parameters())
    s, x_pool, x_lift, adj_dense = parts
    assert s.shape == (1, 200, 10)
    torch.testing.assert_close(x_lift.view(200, -1), s[0] @ x_pool[0])
    assert torch.equal(adj_dense[0], to_dense_adj(data.edge_index, max_num_nodes=200)[0])
    right = (logits.argmax(-1) == words[4])[~seen]
    assert right.float().mean() > 0.9


class ClusteringNet(torch.nn.Module):
    def __init__(self, in_channels, num_clusters):
        super().__init__()
        embed_dim = 32  # set to benchmark width (see clustering results)

        self.mp = ModuleList(
            [
                ARMAConv(in_channels, embed_dim, num_layers=2), ELU(inplace=True),
                ARMAConv(embed_dim, embed_dim, num_layers=2), ELU(inplace=True),
            ]
        )  # fmt: skip
        self.pooler = get_pooler(
            "mincut",
            in_channels=embed_dim,
            k=num_clusters,
            cache_preprocessing=True,
        )

    def forward(self, x, edge_index, edge_weight):
        for i in range(0, len(self.mp), 2):
            x = self.mp[i](x, edge_index, edge_weight)
            x = self.mp[i + 1](x)
        out = self.pooler(x=x, adj=edge_index, edge_weight=edge_weight)
        aux_loss = sum(out.get_loss_value())
        return out.so.s, aux_loss


def test_clustering(communities):
    """Training with the auxiliary losses only finds the groups."""
    net = ClusteringNet(5, 5)
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
    for _ in range(100):
        optimizer.zero_grad()
        s, aux_loss = net(communities.x, communities.edge_index, None)
        aux_loss.backward()
        optimizer.step()
    assert s.shape == (1, 200, 5)
    torch.testing.assert_close(s.sum(-1), torch.ones(1, 200))
    found = s[0].argmax(-1)
    table = torch.zeros(5, 5).index_put_((found, communities.y), torch.ones(200), accumulate=True)
    assert table.amax(0).sum() > 0.9 * 200 and table.amax(1).sum() > 0.9 * 200  # each group one cluster
