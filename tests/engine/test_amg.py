"""Algebraic multigrid: rules of splittings, interpolation and Galerkin products equal to dense references, exact sizes."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.test_hem import component_sizes
from tests.reference import amg as reference
from tgp.engine import coarsen, parse_schedule, threads
from tgp.engine.amg_backend import cluster_around_centers
from tgp.engine.interpolation import find_strong_edges
from tgp.engine.level_method import GraphSizes, RandomKey
from tgp.engine.methods.amg import METHOD, AMGParams, interpolation
from tgp.engine.target_size import count_kept
from tgp.errors import GraphError, InputError, MissingPackageError, ParameterError
from tgp.ragged import Assignment, BlockCSR
from tgp.testing.conformance import check_method
from tgp.testing.graphs import (
    barabasi_albert,
    complete,
    cycle,
    erdos_renyi,
    grid2d,
    isolated,
    path,
    star,
    toy_block,
)  # fmt: skip
from tgp.testing.strategies import blocks

pytest.importorskip("pyamg")

VARIANTS = [
    AMGParams(),
    AMGParams(entries=2, strength=0.6),
    AMGParams(weights="classical", entries=100),
    AMGParams(weights="constant"),
    AMGParams(kind="sa"),
    AMGParams(kind="sa", weights="constant"),
    AMGParams(ratio=0.4),
    AMGParams(nodes=3, entries=2),
]
GRAPHS = blocks(max_graphs=1, min_graphs=1) | blocks(
    max_graphs=1, min_graphs=1, max_edges=40, negative=False, simple=True, directed=False
)


def weighted(block, seed=0):
    """Return the block with symmetric weights between 0.1 and 10."""
    rows, cols = block.edge_index()
    low, high = np.minimum(rows, cols), np.maximum(rows, cols)
    value = np.random.default_rng(seed).uniform(-1, 1, (block.num_nodes, block.num_nodes))
    return BlockCSR(block.indptr, block.indices, 10.0 ** value[low, high], block.node_ptr)


def assign(block, params, seed=0):
    return METHOD.assign(block, params, RandomKey(seed))


def dense(block):
    """Return the adjacency matrix of a coarse graph."""
    found = np.zeros((block.num_nodes, block.num_nodes))
    found[block.rows(), block.indices] = block.weights_or_ones()
    return found


def num_components(weights):
    label = np.arange(len(weights))
    for _ in label:
        label = np.array(
            [min([label[i], *label[weights[i] != 0]]) for i in range(len(label))] or [], dtype=int
        )
    return len(set(label.tolist()))


# Supernodes --------------------------------------------------------------------------------------------------------


@given(GRAPHS, st.sampled_from([0.0, 0.25, 0.6, 1.0]))
def test_splittings_obey_the_rules_of_ruge_and_stuben(block, strength):
    """Other nodes have a strong center. Two centers are not both strong for each other, except centers without a strong one."""
    found = assign(block, AMGParams(strength=strength))
    weights = reference.adjacency(block)
    strong = reference.strong_edges(weights, strength)
    centers = found.representative
    assert found.cluster[centers].tolist() == list(range(len(centers)))
    others = np.setdiff1d(np.arange(block.num_nodes), centers)
    assert strong[np.ix_(others, centers)].any(axis=1).all()
    both = (strong & strong.T)[np.ix_(centers, centers)]
    assert not both.any()
    for i in others:  # the supernode of a node is its strongest center
        mine = np.where(strong[i, centers], weights[i, centers], 0.0)
        assert found.cluster[i] == mine.argmax()


@pytest.mark.parametrize("block", [grid2d(7, 8), cycle(9), barabasi_albert(60, 2), complete(6), star(8)])
def test_centers_of_unweighted_graphs_are_a_maximal_independent_set(block):
    centers = set(assign(block, AMGParams()).representative.tolist())
    near = reference.adjacency(block) > 0
    for i in range(block.num_nodes):
        assert (i in centers) != any(near[i, c] for c in centers)


@given(GRAPHS, st.sampled_from([0.0, 0.25, 1.0]))
def test_aggregates_equal_the_reference(block, strength):
    found = assign(block, AMGParams(kind="sa", strength=strength))
    root = reference.aggregate(reference.strong_edges(reference.adjacency(block), strength))
    assert found.representative[found.cluster].tolist() == root


@given(GRAPHS, st.sampled_from([0.05, 0.3, 0.5, 1.0]), st.integers(0, 3))
def test_lloyd_reaches_the_ratio_in_every_component(block, ratio, seed):
    found = assign(block, AMGParams(ratio=ratio), seed)
    graphs = find_strong_edges(block, 0.0).graphs
    before, after = component_sizes(graphs, found.cluster)
    assert after.tolist() == count_kept(before, ratio).tolist()
    assert found.cluster[found.representative].tolist() == list(range(found.num_supernodes))
    weights = reference.adjacency(block)
    for c in range(found.num_supernodes):
        assert num_components(weights[np.ix_(found.cluster == c, found.cluster == c)]) == 1


def test_lloyd_with_a_number_of_nodes_and_other_seeds():
    block = BlockCSR.concat([grid2d(9, 9), isolated(5), grid2d(2, 2)])
    levels = [coarsen(block, "amg:nodes=7", seed=seed).levels[0] for seed in (0, 0, 1)]
    assert all(np.diff(level.super_ptr).tolist() == [7, 5, 4] for level in levels)
    first, same, other = (level.assignment.cluster.tolist() for level in levels)
    assert first == same != other
    assert coarsen(grid2d(20, 10), "amg:kind=lloyd").levels[0].block.num_nodes == 20


@pytest.mark.parametrize("near", [0, 2])
def test_lloyd_clusters_follow_short_edges(near):
    """The node between two centers joins the one to which its edge is heavier, and therefore shorter."""
    weight = np.array([3.0, 3.0, 1.0, 1.0] if near == 0 else [1.0, 1.0, 3.0, 3.0])
    block = BlockCSR.from_edge_index(np.array([[0, 1, 1, 2], [1, 0, 2, 1]]), weight)
    root = cluster_around_centers(find_strong_edges(block, 0.0), np.array([0, 2], np.int32))
    assert root[1] == root[near] != root[2 - near]


# Interpolation and coarse graphs -------------------------------------------------------------------------------------


def expected_rows(block, found, params):
    """Return the interpolation matrix of the reference."""
    weights = reference.adjacency(block)
    strong = reference.strong_edges(weights, params.strength)
    if params.used_kind == "rs":
        rule = reference.classical if params.weights == "classical" else reference.direct
        rows = rule(weights, strong, found.representative.tolist())
    else:
        rows = reference.smoothed(weights, strong, found.cluster.tolist())
    return rows


@pytest.mark.parametrize("params", VARIANTS, ids=str)
@given(GRAPHS)
def test_rows_equal_the_dense_reference(params, block):
    found = assign(block, params)
    rows = interpolation(block, found, params)
    expected = reference.limit(expected_rows(block, found, params), params.num_entries)
    if params.weights == "classical":  # sums of the library can round the order of nearly equal weights
        assert np.allclose(rows.toarray(), expected, rtol=1e-9, atol=1e-12)
    else:
        assert np.allclose(rows.toarray(), expected, rtol=1e-12, atol=0)
    assert np.allclose(rows.sum(axis=1), 1.0, rtol=1e-14) and (rows.data > 0).all()
    assert np.diff(rows.indptr).max(initial=0) <= params.num_entries
    largest = rows.toarray().max(axis=1, initial=0.0)
    own = rows.toarray()[np.arange(block.num_nodes), found.cluster]
    assert (own >= largest * (1 - 1e-12)).all()


@pytest.mark.parametrize("params", VARIANTS, ids=str)
@given(GRAPHS)
def test_the_coarse_laplacian_is_the_galerkin_product(params, block):
    found = assign(block, params)
    rows = interpolation(block, found, params).toarray()
    fine = reference.laplacian(reference.adjacency(block))
    coarse = METHOD.connect(block, found, params)
    product = rows.T @ fine @ rows
    weights = dense(coarse)
    assert np.array_equal(weights, weights.T) and not np.diag(weights).any()
    scale = max(1.0, np.abs(fine).max(initial=0.0))
    assert np.allclose(reference.laplacian(weights), product, rtol=0, atol=1e-11 * scale)
    assert num_components(weights) == num_components(reference.adjacency(block))
    if params.num_entries == 1:
        members = np.eye(found.num_supernodes)[found.cluster]
        inside = members.T @ reference.adjacency(block) @ members
        assert np.allclose(weights, inside - np.diag(np.diag(inside)), rtol=1e-12)


def test_a_grid_has_the_known_stencil():
    """On a path every second node is a center, and the coarse path has half of the weights."""
    level = coarsen(path(9), "amg").levels[0]
    assert level.assignment.representative.tolist() == [1, 3, 5, 7]
    assert level.block.weight.tolist() == [0.5] * 6
    rows = interpolation(path(9), level.assignment).toarray()
    assert rows[2].tolist() == [0.5, 0.5, 0.0, 0.0] and rows[0].tolist() == [1.0, 0.0, 0.0, 0.0]


def test_smooth_vectors_keep_their_energy():
    """The lowest eigenvalue of a grid is kept by interpolation much better than by clusters."""
    block = grid2d(12, 12)
    fine = np.linalg.eigvalsh(reference.laplacian(dense(block)))[1]
    errors = []
    for text in ("amg", "amg:weights=constant"):
        (spec,) = (coarsen(block, text).levels[0],)
        params = AMGParams(weights="constant") if "constant" in text else AMGParams()
        rows = interpolation(block, spec.assignment, params).toarray()
        mass = np.linalg.cholesky(rows.T @ rows)
        inverse = np.linalg.inv(mass)
        coarse = inverse @ reference.laplacian(dense(spec.block)) @ inverse.T
        errors.append(np.linalg.eigvalsh(coarse)[1] / fine - 1)
    assert 0 < errors[0] < 0.02 < 0.1 < errors[1]


@pytest.mark.parametrize("scale", [2.0**-1000, 2.0**900])
@pytest.mark.parametrize("params", VARIANTS, ids=str)
def test_the_unit_of_the_weights_has_no_effect(scale, params):
    block = weighted(erdos_renyi(40, 0.15, seed=4))
    other = BlockCSR(block.indptr, block.indices, block.weight * scale, block.node_ptr)
    found, same = assign(block, params), assign(other, params)
    assert np.array_equal(found.cluster, same.cluster)
    assert np.array_equal(
        METHOD.connect(block, found, params).weight * scale, METHOD.connect(other, same, params).weight
    )


def test_weights_of_very_different_size():
    """A weak edge is the only one between two groups. It stays, however small it is."""
    block = BlockCSR.from_edge_index(
        np.array([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]]),
        np.array([1e12, 1e12, 1e-30, 1e-30, 1e200, 1e200]),
    )
    for params in VARIANTS:
        found = assign(block, params)
        coarse = METHOD.connect(block, found, params)
        assert np.isfinite(coarse.weight).all()
        assert (found.cluster[0] == found.cluster[1]) or params.used_kind == "lloyd"
    level = METHOD.connect(block, assign(block, AMGParams()), AMGParams())
    assert level.num_nodes == 2 and level.weight.tolist() == pytest.approx([1e-30] * 2, abs=0)


def test_rounding_errors_are_no_edges():
    """The two terms of some coarse weights cancel."""
    block, params = barabasi_albert(200, 3), AMGParams(weights="classical")
    coarse = METHOD.connect(block, assign(block, params), params)
    assert np.abs(coarse.weight).min() > 1e-10


def test_few_entries_bound_the_coarse_edges_of_graphs_with_hubs():
    block = barabasi_albert(3000, 5)
    edges = [coarsen(block, f"amg:entries={n}").levels[0].block.num_edges for n in (1, 2, 4, 1000)]
    assert edges == sorted(edges) and edges[2] < 16 * block.num_edges < edges[2] * 8
    assert edges[3] > 2 * edges[2]


# Independence --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("params", VARIANTS, ids=str)
def test_graphs_do_not_depend_on_their_block(params):
    parts = [star(9), grid2d(5, 5), isolated(3), *toy_block().split(), barabasi_albert(60, 2)]
    block = BlockCSR.concat([weighted(part, seed) for seed, part in enumerate(parts)])
    whole = assign(block, params, 3)
    coarse = METHOD.connect(block, whole, params)
    for g in range(block.num_graphs):
        alone = assign(block.take([g]), params, 3)
        mine = slice(*block.node_ptr[g : g + 2])
        assert np.array_equal(whole.cluster[mine] - whole.super_ptr[g], alone.cluster)
        one = METHOD.connect(block.take([g]), alone, params)
        assert coarse.take([g]).weight.tobytes() == one.weight.tobytes()


@pytest.mark.parametrize("schedule", ["amg*2", "amg:kind=sa*2", "amg:ratio=0.3*2", "amg:weights=classical*2"])
def test_threads_do_not_change_the_result(schedule, monkeypatch):
    block = BlockCSR.concat([barabasi_albert(300, 2, seed=2), grid2d(15, 15)])
    expected = [level.block.weight.tobytes() for level in coarsen(block, schedule).levels]
    monkeypatch.setattr(threads, "num_threads", lambda: 3)
    monkeypatch.setattr(threads, "_MIN_WORK", 0)
    assert [level.block.weight.tobytes() for level in coarsen(block, schedule).levels] == expected


@pytest.mark.parametrize(
    "params",
    [
        {"ratio": None},
        {"ratio": None, "kind": "rs", "weights": "classical"},
        {"ratio": None, "kind": "sa"},
        {"ratio": None, "kind": "sa", "weights": "constant"},
    ],
    ids=str,
)
def test_other_kinds_pass_the_checks(params):
    """The checks of all methods run with ``ratio``, which is Lloyd clustering."""
    only = {"sizes", "blocks", "seeds", "tiny", "odd_weights", "weights", "inputs_unchanged", "planning"}
    assert set(check_method("amg", only=only, **params).values()) == {"passed"}


def test_levels_of_any_schedule():
    block = BlockCSR.concat([grid2d(12, 12), erdos_renyi(60, 0.1, seed=2)])
    hierarchy = coarsen(block, "hem,amg,amg:kind=sa,graclus,amg:ratio=0.5").validate()
    assert [level.method for level in hierarchy.levels] == ["hem", "amg", "amg", "graclus", "amg"]
    finished = coarsen(block, parse_schedule("amg*").with_until(70))
    assert max(np.diff(level.super_ptr).max() for level in finished.levels[-1:]) <= 70


# Errors --------------------------------------------------------------------------------------------------------------


def test_a_missing_package_is_named_with_its_command(monkeypatch):
    for name in [name for name in sys.modules if name == "pyamg" or name.startswith("pyamg.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyamg", None)
    for params in VARIANTS:
        with pytest.raises(MissingPackageError, match="pyamg") as caught:
            assign(path(4), params)
        assert "tgp-coarsen[amg]" in caught.value.hint


def test_levels_can_be_connected_without_the_package():
    """The interpolation follows from the centers."""
    code = (
        "import sys; sys.modules['pyamg'] = None; import numpy as np; from tgp.ragged import Assignment; "
        "from tgp.engine.methods.amg import METHOD, AMGParams; from tgp.testing.graphs import path; "
        "found = Assignment('hard', np.array([0, 2]), np.array([0, 0, 1]), representative=np.array([0, 2])); "
        "print(METHOD.connect(path(3), found, AMGParams()).weight.tolist(), 'torch' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[0.5, 0.5] False"


def test_graphs_with_too_many_edges_are_refused(monkeypatch):
    monkeypatch.setattr("tgp.engine.amg_backend._MAX_EDGES", 10)
    with pytest.raises(GraphError, match="too large for pyamg"):
        assign(grid2d(3, 3), AMGParams())


@pytest.mark.parametrize("kind", ["rs", "sa"])
@pytest.mark.parametrize("size", [{"ratio": 0.5}, {"nodes": 5}])
def test_kinds_without_a_size_say_so(kind, size):
    (name,) = size
    with pytest.raises(ParameterError, match=f"{name} is not supported by kind={kind}.*kind=lloyd") as caught:
        AMGParams(kind=kind, **size)
    assert caught.value.field == name and f"amg:{name}=" in caught.value.hint


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"kind": "pmis"}, "kind is unknown: expected one of auto, rs, sa, lloyd"),
        ({"kind": None}, "kind is unknown"),
        ({"weights": "exact"}, "weights is unknown"),
        (
            {"weights": "smoothed"},
            "weights does not fit kind=rs: expected one of direct, classical, constant",
        ),
        ({"weights": "direct", "ratio": 0.5}, "weights does not fit kind=lloyd"),
        ({"weights": "classical", "kind": "sa"}, "weights does not fit kind=sa"),
        ({"ratio": 0.0}, "ratio is out of range"),
        ({"ratio": 1.5}, "ratio is out of range"),
        ({"ratio": float("nan")}, "ratio is out of range"),
        ({"ratio": 0.5, "nodes": 3}, "the size is given twice"),
        ({"nodes": 0}, "nodes is out of range"),
        ({"strength": -0.1}, "strength is out of range"),
        ({"strength": 1.1}, "strength is out of range"),
        ({"strength": float("nan")}, "strength is out of range"),
        ({"entries": 0}, "entries is out of range"),
        ({"entries": True}, "entries is out of range"),
        ({"entries": 2.5}, "entries is out of range"),
    ],
)
def test_wrong_parameters_are_named(values, message):
    with pytest.raises(ParameterError, match=message):
        AMGParams(**values)


@pytest.mark.parametrize("ids", [[0, 0], [2, 0], [0, 1], [-1, 2], [0, 9], [0]])
def test_representatives_that_are_no_centers_are_refused(ids):
    found = Assignment("hard", np.array([0, 2]), np.array([0, 0, 1]), representative=np.array(ids))
    with pytest.raises(InputError, match="representative"):
        interpolation(path(3), found)


def test_assignments_of_other_graphs_are_refused_and_dropped_nodes_have_empty_rows():
    found = Assignment("hard", np.array([0, 2]), np.array([0, -1, 1]))
    with pytest.raises(InputError, match="wrong length"):
        interpolation(path(4), found)
    assert np.diff(interpolation(path(3), found).indptr).tolist() == [1, 0, 1]
    with pytest.raises(InputError, match="not hard"):
        interpolation(path(2), Assignment("soft", np.array([0, 2]), soft=np.eye(2, dtype=np.float32)))


@pytest.mark.parametrize("params", VARIANTS, ids=str)
def test_bounds_hold(params):
    for block in (grid2d(40, 40), barabasi_albert(500, 5), complete(30), star(50)):
        degree = np.array([np.diff(block.indptr).max()])
        limit = METHOD.bound(
            GraphSizes(np.array([block.num_nodes]), np.array([block.num_edges]), degree), params
        )
        coarse = METHOD.connect(block, assign(block, params), params)
        assert coarse.num_nodes <= limit.nodes[0] and coarse.num_edges <= limit.edges[0]
