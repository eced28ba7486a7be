"""Checks of values: files with a right digest and a valid structure, but with wrong values."""

import numpy as np
import pytest

from tgp.store import StoreWriter, contraction_check, verify_store
from tgp.testing.stores import forge_shard, halving, halving_spec, random_table, store_spec


def forge(path, edit, part="halve", unit=1):
    """Edit a shard, update its digest in the manifest, and verify the store."""
    forge_shard(path, edit, part, unit)
    # The records still contain the old digests, which would be reported too.
    for record in (path / "records").glob("*.json"):
        record.unlink()
    return verify_store(path)


def test_findings_name_shard_field_and_graph(store):
    def edit(file):
        start = int(file["node_ptr"][3])
        file["levels/0/cluster"][start] = 14

    (finding, *_) = forge(store, edit)
    assert finding.shard == "shard-00001.halve.h5"
    assert finding.field == "/levels/0/cluster"
    assert finding.graph == 23
    assert "graph 23" in finding.message


def test_a_supernode_without_nodes_is_found(store):
    def edit(file):
        start, end = (int(n) for n in file["node_ptr"][5:7])
        cluster = file["levels/0/cluster"][start:end]
        cluster[cluster == cluster.max()] = 0
        file["levels/0/cluster"][start:end] = cluster

    findings = forge(store, edit)
    assert ("/levels/0/cluster", 25) in {(f.field, f.graph) for f in findings}
    assert any("without nodes" in f.message for f in findings)


def test_a_representative_of_another_supernode_is_found(store):
    def edit(file):
        start = int(file["levels/0/super_ptr"][2])
        file["levels/0/representative"][start] = 3

    (finding,) = forge(store, edit)
    assert (finding.field, finding.graph) == ("/levels/0/representative", 22)


def test_an_edge_without_a_finer_edge_is_found(store):
    def edit(file):
        start = int(file["levels/0/edge_ptr"][4])
        edges = file["levels/0/edge_index"][:, start]
        file["levels/0/edge_index"][:, start] = edges[0]  # a self loop, which contraction removes

    findings = forge(store, edit)
    assert ("/levels/0/edge_index", 24) in {(f.field, f.graph) for f in findings}


@pytest.mark.parametrize("level", [0, 1, 2])
def test_a_weight_that_is_not_the_sum_is_found(store, level):
    def edit(file):
        start = int(file[f"levels/{level}/edge_ptr"][7])
        file[f"levels/{level}/edge_weight"][start] += 0.25

    findings = forge(store, edit)
    assert (f"/levels/{level}/edge_index", 27) in {(f.field, f.graph) for f in findings}


def test_numbers_that_are_not_finite_are_found(store):
    def edit(file):
        file["levels/1/edge_weight"][0] = np.nan

    findings = forge(store, edit)
    assert "/levels/1/edge_weight" in {f.field for f in findings}


def test_a_missing_edge_of_an_unweighted_graph_is_found(tmp_path):
    table = random_table(10, seed=4)
    spec = store_spec(table, 1, hierarchies=[halving_spec(num_levels=1)])
    writer = StoreWriter.open(tmp_path, spec)
    writer.write_graphs(0, table)
    writer.write_hierarchy(0, "halve", halving(table, 1))
    writer.publish()
    assert verify_store(tmp_path) == []

    def edit(file):
        start = int(file["levels/0/edge_ptr"][2])
        edges = file["levels/0/edge_index"]
        edges[:, start] = edges[:, start + 1]  # one edge occurs twice, another one is missing

    findings = forge(tmp_path, edit, unit=0)
    assert ("/levels/0/edge_index", 2) in {(f.field, f.graph) for f in findings}


def test_values_are_not_checked_without_semantics(store):
    def edit(file):
        file["levels/1/edge_weight"][0] = np.nan

    assert forge(store, edit)
    assert verify_store(store, semantics=False) == []


@pytest.mark.parametrize("name", ["manifest.json", "records/spec.json", "records/shard-00000.graphs.json"])
def test_a_missing_final_line_break_is_found(store, name):
    file = store / name
    file.write_bytes(file.read_bytes()[:-1])  # the parsed content is the same
    assert [f.shard for f in verify_store(store)] == [name]


def test_a_record_that_contradicts_the_manifest_is_found(store):
    record = store / "records/shard-00000.graphs.json"
    other = store / "records/shard-00001.graphs.json"
    record.write_bytes(other.read_bytes())
    assert [f.shard for f in verify_store(store)] == ["records/shard-00000.graphs.json"]


def test_all_damaged_shards_are_found(store):
    for name in ("shard-00000.graphs.h5", "shard-00001.halve.h5"):
        data = bytearray((store / name).read_bytes())
        data[len(data) // 2] ^= 1
        (store / name).write_bytes(data)
    assert {f.shard for f in verify_store(store)} == {"shard-00000.graphs.h5", "shard-00001.halve.h5"}


def random_level(rng, num_graphs, loops):
    """Return random finer edges, an assignment with dropped nodes, and the coarse edges from a plain loop."""
    sizes, supers = rng.integers(0, 7, num_graphs), rng.integers(1, 4, num_graphs)
    fine, coarse, cluster = [], [], []
    for size, count in zip(sizes, supers, strict=True):
        mine = rng.integers(-1, count, size)
        edges = rng.integers(0, max(size, 1), (2, 2 * size)) if size else np.zeros((2, 0), int)
        sums = {}
        for u, v in edges.T:
            pair = mine[u], mine[v]
            if min(pair) >= 0 and (loops or pair[0] != pair[1]):
                sums[pair] = sums.get(pair, 0.0) + 1.0
        fine.append(edges)
        coarse.append([(*pair, total) for pair, total in sorted(sums.items())])
        cluster.append(mine)
    return sizes, supers, fine, coarse, np.concatenate(cluster).astype(np.int8)


def stored_edges(sizes, parts, weight):
    index = np.concatenate([np.asarray(p, float).reshape(-1, 3).T for p in parts], axis=1)
    ptr = np.concatenate([[0], np.cumsum([len(p) for p in parts])])
    nodes = np.concatenate([[0], np.cumsum(sizes)])
    return contraction_check.unit_edges(index[:2].astype(np.uint8), index[2] if weight else None, ptr, nodes)


@pytest.mark.parametrize("ratio", [0, 64])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loops", [False, True])
def test_every_wrong_coarse_edge_is_found(monkeypatch, ratio, weighted, loops):
    monkeypatch.setattr(contraction_check, "_DENSE_RATIO", ratio)
    monkeypatch.setattr(contraction_check, "_BLOCK_EDGES", 20)
    rng = np.random.default_rng(0)
    sizes, supers, fine, right, cluster = random_level(rng, 40, loops)
    finer = stored_edges(sizes, [[(u, v, 1.0) for u, v in edges.T] for edges in fine], weighted)

    def first_wrong(parts):
        coarse = stored_edges(supers, parts, weighted)
        options = {"remove_self_loops": not loops}
        return contraction_check.first_wrong_contraction(finer, coarse, cluster, options, "float32")

    assert first_wrong(right) is None
    for graph, edges in enumerate(right):
        pairs = {(u, v) for u, v, _ in edges}
        absent = [(u, v) for u in range(supers[graph]) for v in range(supers[graph]) if (u, v) not in pairs]
        changed = [edges[1:]] if edges else []
        changed += [[*edges, (*absent[0], 1.0)]] if absent else []
        changed += (
            [[*edges[1:], (*absent[0], edges[0][2])]] if absent and edges else []
        )  # the same total weight
        changed += [[*edges, edges[-1]]] if edges else []
        for wrong in changed:
            assert first_wrong([*right[:graph], wrong, *right[graph + 1 :]]) == graph
