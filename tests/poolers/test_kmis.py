"""``KMISPooling`` as users call it. The tests of the kernel cover the independent set."""

import itertools

import pytest
import torch

from tgp.connect import SparseConnect
from tgp.poolers import KMISPooling, get_pooler
from tgp.select import KMISSelect, SelectOutput, degree_scorer
from tgp.select.kmis_select import maximal_independent_set, maximal_independent_set_cluster
from tgp.testing.graphs import karate

PATH = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
KARATE = torch.from_numpy(karate().edge_index())
ENGINE = ["random", "constant", "canonical", "degree"]


@pytest.mark.parametrize(
    ("k", "heuristic", "members"),
    [
        (1, "greedy", [0, 16, 24, 33]),
        (1, None, [0, 16, 24, 33]),
        (1, "w-greedy", [0, 16, 24, 33]),
        (2, "greedy", [7, 16, 33]),
        (2, "w-greedy", [1, 16, 24, 29]),
        # Nodes 5 and 6 have degree 4. The unstable sort of the reference took 6; tgp takes the smaller index.
        (2, None, [5, 33]),
    ],
)
def test_golden_karate(k, heuristic, members):
    pooler = KMISPooling(scorer="degree", order_k=k, score_heuristic=heuristic)
    out = pooler(x=torch.ones(34, 1), adj=KARATE)
    assert out.so.mis.tolist() == members
    # The sum of the pooled features is the sum of all degrees.
    assert out.x.sum() == KARATE.size(1)


def test_golden_path_and_isolated_node():
    edges = torch.tensor([[0, 1, 1, 2, 2, 3, 3, 4], [1, 0, 2, 1, 3, 2, 4, 3]])
    out = KMISPooling(scorer="degree")(x=torch.ones(6, 1), adj=edges)
    assert out.so.mis.tolist() == [1, 3, 5]
    assert out.so.cluster_index.tolist() == [0, 0, 0, 1, 1, 2]
    assert out.so.weight.tolist() == [1, 2, 2, 2, 1, 0]
    assert out.x.flatten().tolist() == [5, 3, 0]


def test_functions():
    assert maximal_independent_set(PATH).nonzero().flatten().tolist() == [0, 2]
    mask, cluster = maximal_independent_set_cluster(PATH, perm=torch.tensor([3, 2, 1, 0]))
    assert mask.nonzero().flatten().tolist() == [1, 3] and cluster.tolist() == [0, 0, 1, 1]
    assert maximal_independent_set(PATH, order_k=2, num_nodes=5).tolist() == [True, False, False, True, True]
    with pytest.raises(ValueError, match="once"):
        maximal_independent_set(PATH, perm=torch.tensor([0, 0, 1, 2]))
    edges = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    assert degree_scorer(edges, torch.tensor([1.0, 0, 2, 0])).tolist() == [0, 1, 2]
    assert degree_scorer(edges, torch.tensor([1.0, 0, 2, 0]), dim=0).tolist() == [1, 2, 0]
    assert degree_scorer(edges, num_nodes=4).tolist() == [1, 2, 1, 0]


@pytest.mark.parametrize(
    ("lift", "s_inv_op", "reduce", "scorer"),
    list(
        itertools.product(
            ["precomputed", "transpose", "inverse"],
            ["transpose", "inverse"],
            ["sum", "mean", None],
            ["linear", "first", "last", *ENGINE],
        )
    ),
)
def test_all_combinations_pool_and_lift(lift, s_inv_op, reduce, scorer):
    torch.manual_seed(0)
    pooler = KMISPooling(3, scorer=scorer, lift=lift, s_inv_op=s_inv_op, reduce_red_op=reduce)
    x = torch.rand(34, 3)
    out = pooler(x=x, adj=KARATE, batch=torch.zeros(34, dtype=torch.long))
    size = out.so.num_supernodes
    assert 1 <= size <= 34 and out.x.shape == (size, 3) and out.batch.tolist() == [0] * size
    assert torch.isfinite(out.x).all()
    assert pooler(x=out.x, so=out.so, lifting=True).shape == (34, 3)


def test_reduce_to_members_or_to_sums():
    x = torch.tensor([[1.0], [2], [3], [4]])
    member = KMISPooling(scorer="degree", reduce_red_op=None)(
        x=x, adj=PATH, batch=torch.zeros(4, dtype=torch.long)
    )
    assert member.so.mis.tolist() == [1, 3] and member.x.flatten().tolist() == [4, 4]
    assert member.batch.tolist() == [0, 0]
    for name in ("sum", "mean", "max"):
        out = KMISPooling(scorer="degree", reduce_red_op=name)(x=x, adj=PATH)
        assert out.x.flatten().tolist() == [1 * 1 + 2 * 2 + 2 * 3, 1 * 4]
    with pytest.raises(ValueError, match="mis"):
        KMISPooling(scorer="degree", reduce_red_op=None)(
            x=x, adj=PATH, so=SelectOutput(cluster_index=torch.tensor([0, 0, 1, 1]))
        )


def test_linear_scores_learn():
    torch.manual_seed(0)
    pooler = KMISPooling([3, 7])
    assert pooler.is_trainable and not pooler.is_precoarsenable
    x = torch.rand(34, 3, requires_grad=True)
    out = pooler(x=x, adj=KARATE)
    score = torch.sigmoid(pooler.selector.lin(x)).squeeze(1)
    assert torch.equal(out.so.weight, score)
    torch.testing.assert_close(
        out.x, torch.zeros(out.so.num_supernodes, 3).index_add(0, out.so.cluster_index, x * score[:, None])
    )
    out.x.sum().backward()
    assert pooler.selector.lin.weight.grad.abs().sum() > 0 and x.grad.abs().sum() > 0
    # A gradient through the sum of scores alone equals that of the formula.
    [got] = torch.autograd.grad(pooler(x=torch.ones(34, 3), adj=KARATE).x.sum(), pooler.selector.lin.bias)
    s = torch.sigmoid(pooler.selector.lin(torch.ones(1, 3)))
    torch.testing.assert_close(got, 34 * 3 * (s * (1 - s)).flatten())
    before = pooler.selector.lin.weight.clone()
    pooler.reset_parameters()
    assert not torch.equal(before, pooler.selector.lin.weight)


def test_scores_as_tensor_function_and_feature():
    x = torch.tensor([[0.0, 4], [3, 3], [2, 9], [9, 1]])
    by_tensor = KMISSelect(scorer=x[:, 0], score_heuristic=None)(x=x, edge_index=PATH)
    assert by_tensor.mis.tolist() == [1, 3] and by_tensor.weight.tolist() == [0, 3, 2, 9]
    by_name = KMISSelect(scorer="first", score_heuristic=None)(x=x, edge_index=PATH)
    assert torch.equal(by_name.weight, by_tensor.weight) and torch.equal(by_name.mis, by_tensor.mis)
    assert KMISSelect(scorer="last", score_heuristic=None)(x=x, edge_index=PATH).mis.tolist() == [0, 2]

    def function(x, edge_index, edge_weight, batch):
        return -x[:, :1].long()

    by_function = KMISPooling(scorer=function, score_heuristic=None)
    assert by_function(x=x, adj=PATH).so.mis.tolist() == [0, 2]
    with pytest.raises(ValueError, match="shape"):
        KMISSelect(scorer=torch.ones(3))(x=x, edge_index=PATH)
    with pytest.raises(ValueError, match="x must be provided"):
        KMISSelect(scorer="first")(edge_index=PATH)


def test_unsorted_batches_and_gaps():
    batch = torch.tensor([3, 0, 3, 0, 3, 0])
    edges = torch.tensor([[1, 3, 3, 5, 0, 2, 2, 4], [3, 1, 5, 3, 2, 0, 4, 2]])
    for scorer in (*ENGINE, "first"):
        pooler = KMISPooling(scorer=scorer, score_heuristic=None)
        x = torch.tensor([[1.0], [2], [9], [8], [3], [1]])
        out = pooler(x=x, adj=edges, batch=batch)
        assert out.batch.tolist() == batch[out.so.mis].tolist()
        assert (batch[out.so.mis][out.so.cluster_index] == batch).all()
        if scorer == "canonical":
            # The index is counted inside each graph: the first node of a graph has score 0.
            assert out.so.weight.tolist() == [0, 0, -1, -1, -2, -2]
        if scorer == "first":
            assert out.so.mis.tolist() == [3, 2] and out.so.cluster_index.tolist() == [1, 0, 1, 0, 1, 0]


def test_directed_edges_are_used_in_both_directions():
    arrows = torch.tensor([[1, 1, 3], [0, 2, 2]])
    weight = torch.tensor([1.0, 2, 5])
    x = torch.ones(4, 1)
    pooler = KMISPooling(scorer="degree", score_heuristic=None)
    out = pooler(x=x, adj=arrows, edge_weight=weight)
    assert out.so.weight.tolist() == [1, 3, 7, 5] and out.so.mis.tolist() == [0, 2]
    assert out.edge_index.tolist() == [[0, 1], [1, 0]] and out.edge_weight.tolist() == [1, 1]
    swapped = KMISPooling(scorer="degree", score_heuristic=None)
    swapped.connector = SparseConnect()
    learned = weight.clone().requires_grad_()
    function = KMISPooling(scorer=lambda *_: out.so.weight, score_heuristic=None)
    for again in (
        swapped(x=x, adj=arrows, edge_weight=weight),
        pooler(x=x, adj=arrows, edge_weight=learned),
        pooler(x=x, adj=arrows, edge_weight=weight, so=out.so),
        function.precoarsening(arrows, weight, num_nodes=4),
        pooler.precoarsening(arrows, weight, num_nodes=4),
    ):
        assert again.edge_index.tolist() == [[0, 1], [1, 0]]
        assert again.edge_weight.tolist() == [1, 1]
        assert again.so.weight.tolist() == [1, 3, 7, 5]


def test_gradients_reach_edge_weights_through_degrees():
    weight = torch.tensor([1.0, 2, 3, 4, 5, 6], requires_grad=True)
    out = KMISPooling(scorer="degree")(x=torch.tensor([[1.0], [2], [3], [4]]), adj=PATH, edge_weight=weight)
    out.x.sum().backward()
    # d/dw of sum_i x_i * (in-degree of i) is the feature of the target.
    assert weight.grad.tolist() == [2, 1, 3, 2, 4, 3]


def test_given_assignments_are_used():
    given = SelectOutput(cluster_index=torch.tensor([0, 0, 1, 1]))
    out = KMISPooling(scorer="degree")(x=torch.ones(4, 1), adj=PATH, so=given)
    assert out.so is given and out.x.flatten().tolist() == [2, 2]


def test_levels_have_different_random_scores():
    select = KMISSelect(scorer="random", seed=4)
    first = select(edge_index=KARATE).weight
    assert torch.equal(first, select(edge_index=KARATE).weight)
    assert not torch.equal(first, select(edge_index=KARATE, level=1).weight)
    torch.manual_seed(99)
    assert torch.equal(first, KMISSelect(scorer="random", seed=4)(edge_index=KARATE).weight)


def test_precoarsening_with_every_scorer_that_depends_only_on_the_graph():
    for scorer in ENGINE:
        pooler = get_pooler("kmis", scorer=scorer)
        assert pooler.is_precoarsenable
        first, second = pooler.multi_level_precoarsening(2, KARATE)
        assert second.so.num_nodes == first.so.num_supernodes
        assert second.so.mis.max() < first.so.num_supernodes


def test_errors():
    with pytest.raises(ValueError, match="in_channels"):
        KMISPooling()
    with pytest.raises(ValueError, match="scorer must be"):
        KMISPooling(scorer="best")
    with pytest.raises(ValueError, match="scorer must be"):
        KMISPooling(scorer=3)
    with pytest.raises(ValueError, match="score_heuristic"):
        KMISPooling(scorer="degree", score_heuristic="lazy")
    with pytest.raises(ValueError, match="order_k"):
        KMISPooling(scorer="degree", order_k=0)
    for scorer in ("linear", "first"):
        with pytest.raises(ValueError, match="cached"):
            KMISPooling(2, scorer=scorer, cached=True)
    for scorer in ("degree", "first"):
        with pytest.raises(ValueError, match="edge_index"):
            KMISSelect(scorer=scorer)(x=torch.ones(2, 1))


def test_a_graph_without_nodes_gives_no_supernodes():
    nothing = torch.empty(2, 0, dtype=torch.long)
    for scorer in ("degree", "linear"):
        out = KMISPooling(2, scorer=scorer)(x=torch.ones(0, 2), adj=nothing)
        assert out.x.shape == (0, 2) and out.edge_index.shape == (2, 0) and out.so.mis.numel() == 0


def test_repr_and_cache():
    pooler = KMISPooling(scorer="degree", cached=True)
    assert "scorer=degree, score_heuristic=greedy" in repr(pooler)
    x = torch.rand(34, 2)
    assert torch.equal(pooler(x=x, adj=KARATE).x, pooler(x=x, adj=KARATE).x)
