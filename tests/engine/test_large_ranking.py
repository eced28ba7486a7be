"""Steps on one large graph give the results of the kernels for blocks."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tgp.engine import coarsen, large_ranking, threads
from tgp.engine.methods.kmis import KMISParams, assign_by_score
from tgp.kernels import mis
from tgp.ragged import BlockCSR

SCORES = st.sampled_from([0.0, -0.0, 1.0, 1.0, 2.5, -3.0, np.nan, np.inf, -np.inf, 1e-300])


def use_threads(patch, count):
    patch.setattr(threads, "num_threads", lambda: count)
    patch.setattr(threads, "_MIN_WORK", 1)
    patch.setattr(large_ranking, "_MIN_NODES", 1)
    patch.setattr(large_ranking, "_MIN_ENTRIES", 1)
    patch.setattr(large_ranking, "_SAMPLE", 2)


@given(st.lists(st.tuples(SCORES, SCORES), min_size=1, max_size=300), st.booleans(), st.integers(1, 5))
def test_ranks_do_not_depend_on_the_cut(values, divides, count):
    score, divisor = (np.array(column) for column in zip(*values, strict=True))
    with np.errstate(all="ignore"):
        keys = score / divisor if divides else score
    expected = sorted(
        range(len(keys)), key=lambda i: (keys[i] == keys[i], -keys[i] if keys[i] == keys[i] else 0)
    )
    with pytest.MonkeyPatch.context() as patch:
        use_threads(patch, count)
        assert large_ranking.rank_nodes(score, divisor, divides).tolist() == expected


@given(st.data(), st.integers(1, 60), st.integers(1, 4))
def test_members_are_numbered_in_ascending_order(data, size, count):
    members = sorted(data.draw(st.sets(st.integers(0, size - 1), min_size=1)))
    owner = np.array(
        [i if i in members else data.draw(st.sampled_from(members)) for i in range(size)], np.int32
    )
    node_ptr = np.array([0, size])
    cluster, super_ptr = np.empty(size, np.int32), np.empty(2, np.int64)
    mis.number_clusters(owner, node_ptr, cluster, super_ptr)
    with pytest.MonkeyPatch.context() as patch:
        use_threads(patch, count)
        found = large_ranking.number_members(owner)
    for one, other in zip(found, (cluster, super_ptr, np.array(members, np.int32)), strict=True):
        assert one.dtype == other.dtype and one.tolist() == other.tolist()


@given(
    st.integers(0, 2**32),
    st.integers(1, 12),
    st.integers(0, 30),
    st.sampled_from(["once", "twice", "directed"]),
)
def test_symmetry_by_hashes_is_exact(seed, nodes, entries, kind):
    edges = np.random.default_rng(seed).integers(0, nodes, (2, entries))
    if kind != "directed":
        edges = np.unique(np.concatenate([edges, edges[::-1]], 1), axis=1)
    if kind == "twice":
        edges = np.concatenate([edges, edges], 1)
    block, other = (BlockCSR.from_edge_index(edges, num_nodes=nodes) for _ in range(2))
    with pytest.MonkeyPatch.context() as patch:
        use_threads(patch, 3)
        found = large_ranking.find_symmetry(block)
    assert found.tolist() == other.symmetry.tolist() and found.dtype == other.symmetry.dtype
    assert block.symmetry is found


@pytest.mark.parametrize("count", [1, 2, 3, 4])
@pytest.mark.parametrize(
    "schedule", ["kmis", "kmis:order_k=2", "kmis:scorer=random:max_size=3", "kmis:score_heuristic=w-greedy"]
)
@pytest.mark.parametrize("directed", [False, True])
def test_levels_do_not_depend_on_threads(count, schedule, directed, monkeypatch):
    rng = np.random.default_rng(4)
    edges = rng.integers(0, 400, (2, 900))
    edges = edges if directed else np.concatenate([edges, edges[::-1]], 1)
    make = lambda: BlockCSR.from_edge_index(edges, num_nodes=400)  # noqa: E731
    expected = coarsen(make(), f"{schedule}*2", 3)
    used = []
    rank = large_ranking.rank_nodes
    monkeypatch.setattr("tgp.engine.methods.kmis.rank_nodes", lambda *given: used.append(1) or rank(*given))
    use_threads(monkeypatch, count)
    found = coarsen(make(), f"{schedule}*2", 3)
    assert bool(used) == (count > 1)
    for one, other in zip(found.levels, expected.levels, strict=True):
        for name in ("cluster", "weight", "representative", "super_ptr"):
            assert getattr(one.assignment, name).tobytes() == getattr(other.assignment, name).tobytes()
        assert one.block.indptr.tobytes() == other.block.indptr.tobytes()
        assert one.block.indices.tobytes() == other.block.indices.tobytes()


def test_scores_that_are_not_numbers_rank_first_on_several_threads(monkeypatch):
    edges = np.array([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
    block = BlockCSR.from_edge_index(edges)
    score = [1.0, np.nan, 2.0, np.nan]
    expected = assign_by_score(block, score, KMISParams(score_heuristic=None))
    use_threads(monkeypatch, 2)
    found = assign_by_score(block, score, KMISParams(score_heuristic=None))
    assert found.cluster.tolist() == expected.cluster.tolist() == [0, 0, 0, 1]
