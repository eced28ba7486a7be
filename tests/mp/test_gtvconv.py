import pytest
import torch
from torch_geometric.utils import to_dense_adj

from tgp.mp import GTVConv
from tgp.mp.gtvconv import gtv_adj_weights

EDGES = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
WEIGHT = torch.tensor([1.0, 1, 2, 2, 1, 1])
X = torch.tensor([[1.0, 0], [0, 2], [3, 1], [-1, 1]])
EXPECTED = torch.tensor([[2 / 3, 2 / 3], [11 / 6, 5 / 6], [0.5, 1.5], [0, 1]])


@pytest.fixture
def conv():
    layer = GTVConv(2, 2)
    layer.weight.data = torch.eye(2)
    return layer


def test_published_values(conv):
    torch.testing.assert_close(conv(X, EDGES, WEIGHT), EXPECTED, rtol=1e-5, atol=1e-5)
    dense = to_dense_adj(EDGES, edge_attr=WEIGHT)
    torch.testing.assert_close(conv(X, dense).squeeze(0), EXPECTED, rtol=1e-5, atol=1e-5)
    coo = torch.sparse_coo_tensor(EDGES, WEIGHT, (4, 4), check_invariants=True).coalesce()
    torch.testing.assert_close(conv(X, coo), EXPECTED, rtol=1e-5, atol=1e-5)


def test_directed_with_loops_sparse_equals_dense():
    edges = torch.tensor([[0, 1, 2, 2, 3], [1, 2, 2, 0, 3]])
    weight = torch.tensor([1.0, 0.5, 3, 2, 1])
    layer = GTVConv(2, 3, act=None)
    torch.testing.assert_close(layer(X, edges, weight), layer(X, to_dense_adj(edges, edge_attr=weight))[0])


def test_two_edges_are_an_edge_list(conv):
    """An integer [2, 2] tensor is an edge list, not an adjacency."""
    assert conv(X, torch.tensor([[0, 1], [1, 0]])).shape == (4, 2)


def test_mask_and_activation(conv):
    mask = torch.tensor([True, True, False, True])
    assert (conv(X, EDGES, WEIGHT, mask)[2] == 0).all()
    linear = GTVConv(2, 2, act="identity")
    linear.weight.data = torch.eye(2)
    torch.testing.assert_close(linear(X, EDGES, WEIGHT).relu(), EXPECTED, rtol=1e-5, atol=1e-5)


def test_isolated_node_keeps_its_features(conv):
    out = conv(torch.cat([X, torch.tensor([[5.0, 6.0]])]), EDGES, WEIGHT)
    assert out[4].tolist() == [5, 6]


def test_adj_weights():
    edges, weight = gtv_adj_weights(torch.tensor([[0, 1], [1, 0]]), torch.ones(2))
    assert edges.tolist() == [[0, 1, 0, 1], [1, 0, 0, 1]]
    assert weight.tolist() == [1, 1, 0, 0]
    with pytest.raises(ValueError, match="flow"):
        gtv_adj_weights(edges, weight, flow="sideways")
    with pytest.raises(ValueError, match="edge_weight"):
        gtv_adj_weights(edges, None)


def test_one_mask_for_all_graphs():
    """Masks ``[N]`` and ``[1, N]`` apply to every graph of a padded batch."""
    layer = GTVConv(2, 3)
    x, adj = torch.randn(2, 3, 2), torch.ones(2, 3, 3)
    mask = torch.tensor([True, False, True])
    expected = layer(x, adj, mask=mask.expand(2, 3))
    assert (expected[:, 1] == 0).all()
    torch.testing.assert_close(layer(x, adj, mask=mask), expected)
    torch.testing.assert_close(layer(x, adj, mask=mask.unsqueeze(0)), expected)


def test_messages_of_subclasses_are_used():
    class Doubled(GTVConv):
        def message(self, x_j, edge_weight):
            return 2 * super().message(x_j, edge_weight)

    torch.manual_seed(0)
    layer, other = GTVConv(2, 3, act=None, bias=False), Doubled(2, 3, act=None, bias=False)
    other.load_state_dict(layer.state_dict())
    edges = torch.tensor([[0, 1, 2, 2, 3], [1, 2, 2, 0, 3]])
    weight = torch.tensor([1.0, 0.5, 3, 2, 1])
    torch.testing.assert_close(other(X, edges, weight), 2 * layer(X, edges, weight), rtol=1e-4, atol=1e-4)
    calls = []
    layer.register_message_forward_hook(lambda *_: calls.append(1))
    layer(X, edges, weight)
    assert calls
    messages = layer.message(torch.ones(2, 3), torch.tensor([2.0, 3.0]))
    assert messages.tolist() == [[2] * 3, [3] * 3]


def test_ids_out_of_range_are_refused(conv):
    with pytest.raises(ValueError, match="edge_index has an id out of range"):
        conv(X, torch.tensor([[0, 4], [1, 0]]))
    with pytest.raises(ValueError, match="edge_index has an id out of range"):
        conv(X, torch.tensor([[0, -1], [1, 0]]))
