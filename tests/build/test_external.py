"""Graphs larger than memory: files of edges, equality with runs in memory, plans, refusals."""

import json
import os

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from tgp.build import CoarsenConfig, coarsen_dataset, external, external_input, external_plan
from tgp.engine.external.buckets import Limits
from tgp.errors import DatasetError, InputError
from tgp_cli.main import build_app

SCHEDULE = "hem*3"


def invoke(arguments):
    return CliRunner().invoke(build_app(arguments), arguments)


@pytest.fixture
def small_pieces(monkeypatch):
    """Let small graphs have many pieces and buckets. Synchronizing each of them with the disk would take most of the time."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    monkeypatch.setattr(external, "choose_limits", lambda memory, nodes: Limits(97, 900, checkpoint=300))
    monkeypatch.setattr(external_input, "SCAN_SIZE", 50)
    monkeypatch.setattr(external_input, "_CHECKPOINT", 100)


def random_edges(num_nodes=400, num_edges=1500, seed=0):
    rng = np.random.default_rng(seed)
    edges = rng.integers(0, num_nodes, (num_edges, 2))
    edges[:num_nodes, 0] = np.arange(num_nodes)  # every node has an edge
    return edges


def canonical(edges, weight=None):
    """Return the sorted edges of both directions without duplicates, and the sums of weights."""
    found = {}
    for number, (u, v) in enumerate(edges.tolist()):
        for pair in {(u, v), (v, u)}:
            found[pair] = found.get(pair, 0.0) + (1.0 if weight is None else float(weight[number]))
    pairs = sorted(found)
    index = np.array(pairs, np.int64).reshape(-1, 2).T
    return index, None if weight is None else np.array([found[pair] for pair in pairs], weight.dtype)


def write_text(path, edges, weight=None, separator=" "):
    lines = [f"{u}{separator}{v}" for u, v in edges.tolist()]
    if weight is not None:
        lines = [f"{line}{separator}{w!r}" for line, w in zip(lines, weight.tolist(), strict=True)]
    path.write_text("\n".join(lines) + "\n")
    return path


def run_external(path, out, schedule=SCHEDULE, *, executor=None, progress=lambda step: None, **options):
    config = CoarsenConfig(str(path), out=out, poolers=schedule, memory="4GB", **options)
    return coarsen_dataset(config, executor=executor, progress=progress)


def run_in_memory(folder, edges, weight=None, schedule=SCHEDULE, num_nodes=None, **arrays):
    index, weight = canonical(edges, weight)
    arrays |= {} if weight is None else {"edge_weight": weight}
    nodes = int(index.max()) + 1 if num_nodes is None else num_nodes
    np.savez(folder / "canonical.npz", edge_index=index, num_nodes=nodes, **arrays)
    out = folder / "in_memory"
    coarsen_dataset(CoarsenConfig(str(folder / "canonical.npz"), out=out, poolers=schedule, metrics=False))
    return out


def files_of(store):
    found = {path.name: path.read_bytes() for path in sorted(store.glob("*.h5"))}
    assert len(found) == 2
    return found


def assert_same_store(store, expected):
    assert files_of(store) == files_of(expected)
    manifests = [json.loads((folder / "manifest.json").read_text()) for folder in (store, expected)]
    assert manifests[0]["data_digest"] == manifests[1]["data_digest"]
    assert not store.with_name(f"{store.name}.scratch").exists()


WRITERS = {
    "text": lambda path, e, w: write_text(path.with_suffix(".txt"), e, w),
    "csv": lambda path, e, w: write_text(path.with_suffix(".csv"), e, w, ","),
    "commented": lambda path, e, w: _write_commented(path.with_suffix(".txt"), e, w),
    "npz": lambda path, e, w: _savez(path.with_suffix(".npz"), e.T, w),
    "npz rows": lambda path, e, w: _savez(path.with_suffix(".npz"), e, w, np.savez_compressed),
    "npz fortran": lambda path, e, w: _savez(path.with_suffix(".npz"), np.asfortranarray(e.T), w),
}


def _savez(path, edges, weight, save=np.savez):
    save(path, edge_index=edges.astype(np.int32), **({} if weight is None else {"edge_weight": weight}))
    return path


def _write_commented(path, edges, weight):
    text = write_text(path, edges, weight).read_text()
    path.write_text(f"# comment\n\n{text.rstrip()}")
    return path


@pytest.mark.parametrize(
    "schedule",
    [
        "kmis*2",
        "graclus:two_hop=true*2",
        "hem,kmis:scorer=random,graclus",
        "kmis:score_heuristic=w-greedy,hem",
    ],
)
@pytest.mark.parametrize("weighted", [False, True], ids=["unweighted", "weighted"])
@pytest.mark.usefixtures("small_pieces")
def test_all_methods_give_the_bytes_of_a_run_in_memory(tmp_path, schedule, weighted):
    edges = random_edges()
    weight = np.random.default_rng(1).random(len(edges)).astype(np.float32) if weighted else None
    run_external(write_text(tmp_path / "graph.txt", edges, weight), tmp_path / "store", schedule)
    assert_same_store(tmp_path / "store", run_in_memory(tmp_path, edges, weight, schedule))


@pytest.mark.parametrize("weighted", [False, True], ids=["unweighted", "weighted"])
@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.usefixtures("small_pieces")
def test_the_store_has_the_bytes_of_a_run_in_memory(tmp_path, kind, weighted):
    edges = random_edges()
    weight = np.random.default_rng(1).integers(1, 9, len(edges)).astype(np.float32) if weighted else None
    path = WRITERS[kind](tmp_path / "graph", edges, weight)
    summary = run_external(path, tmp_path / "store")
    assert summary.status == "complete" and summary.units_done == 2
    assert_same_store(tmp_path / "store", run_in_memory(tmp_path, edges, weight))
    assert run_external(path, tmp_path / "store").status == "up to date"


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.usefixtures("small_pieces")
def test_npy_files(tmp_path, transposed):
    edges = random_edges(num_nodes=300)
    np.save(tmp_path / "graph.npy", edges.T if transposed else edges.astype(np.uint16))
    run_external(tmp_path / "graph.npy", tmp_path / "store", "hem:count_edges=true*2")
    expected = run_in_memory(tmp_path, edges, schedule="hem:count_edges=true*2")
    assert_same_store(tmp_path / "store", expected)


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=60),
    st.integers(1, 20),
    st.integers(0, 9),
)
@pytest.mark.usefixtures("small_pieces")
def test_any_list_of_edges(tmp_path_factory, pairs, factor, seed):
    """Ids have holes, edges are listed in both directions or twice, and there are self loops."""
    folder = tmp_path_factory.mktemp("edges")
    edges = factor * np.array(pairs)
    used, index = np.unique(edges, return_inverse=True)
    summary = run_external(write_text(folder / "graph.txt", edges), folder / "store", seed=seed)
    assert summary.status == "complete"
    index = index.reshape(-1, 2)
    kept = {} if np.array_equal(used, np.arange(len(used))) else {"node_id": used}
    canonical_index, _ = canonical(index)
    np.savez(folder / "c.npz", edge_index=canonical_index, num_nodes=len(used), **kept)
    config = CoarsenConfig(
        str(folder / "c.npz"), out=folder / "m", poolers=SCHEDULE, metrics=False, seed=seed
    )
    if len(used) > 1 or not kept:  # an array of one number would be read as an attribute of the graph
        coarsen_dataset(config)
        assert_same_store(folder / "store", folder / "m")


@pytest.mark.usefixtures("small_pieces")
def test_the_store_keeps_the_ids_of_the_file_and_opens_as_a_hierarchy(tmp_path):
    from tgp.data import PooledDataset

    edges = 10 * random_edges(200, 600) + 7
    run_external(write_text(tmp_path / "graph.txt", edges), tmp_path / "store")
    hierarchy = PooledDataset(tmp_path / "store").as_hierarchy()
    assert hierarchy.data.node_id.tolist() == np.unique(edges).tolist()
    assert len(hierarchy) == 3 and hierarchy.data.num_nodes == 200
    assert hierarchy[3].num_nodes < 50


def test_a_disk_that_is_too_small_is_refused_before_the_start(tmp_path, monkeypatch):
    path = write_text(tmp_path / "graph.txt", random_edges())
    monkeypatch.setattr(external_plan.shutil, "disk_usage", lambda folder: type("Usage", (), {"free": 1000}))
    result = invoke(["coarsen", "-d", str(path), "-p", "hem", "--memory", "1GB", "-o", str(tmp_path / "s")])
    assert result.exit_code == 4 and "too small" in result.output and "got 0.0 MB" in result.output
    assert [entry.name for entry in tmp_path.iterdir()] == ["graph.txt"]


def test_the_clock_of_a_stage_starts_with_it():
    """Also if its work has no name, as that of the digest."""
    steps = []
    external._StageDisplay(steps.append, "computing the digest:")("", 1, 10)
    assert [(step.stage, step.elapsed, step.remaining) for step in steps] == [
        ("computing the digest:", 0.0, None)
    ]


def dry_run(path, *options):
    arguments = ["coarsen", "-d", str(path), "-p", SCHEDULE, "-o", str(path.parent / "s"), "--dry-run"]
    return invoke([*arguments, "--memory", "1GB", *options])


def test_dry_run_shows_memory_disk_and_time(tmp_path):
    path = write_text(tmp_path / "graph.txt", random_edges())
    result = dry_run(path)
    assert result.exit_code == 0
    output = " ".join(result.output.split())
    for text in ("temporary files", "of memory", "of work", "nodes and edges are estimated"):
        assert text in output
    plan = json.loads(dry_run(path, "--json").output)
    assert plan["peak_memory"] == 10**9 and plan["scratch_bytes"] > 16 * 1500
    assert [entry.name for entry in tmp_path.iterdir()] == ["graph.txt"]


def test_dry_run_reads_the_number_of_nodes_of_an_array(tmp_path):
    """The largest id is in the last edge, which estimates from the first edges miss."""
    edges = np.zeros((200_000, 2), np.int32)
    for highest, status in ((999, 0), (10**8 - 1, 2), (2**31 - 1, 2)):
        edges[-1] = highest
        np.save(tmp_path / "graph.npy", edges)
        result = dry_run(tmp_path / "graph.npy", "--json")
        assert result.exit_code == status, result.output
        if not status:
            plan = json.loads(result.output)
            assert (plan["num_nodes"], plan["num_edges"]) == (highest + 1, 400_000)


def bad_file(tmp_path, kind):
    text, array = tmp_path / "graph.txt", tmp_path / "graph.npy"
    edges = random_edges(50, 200)
    if kind == "negative text":
        text.write_text("0 1\n-1 2\n")
    elif kind == "half a line":
        text.write_text("0 1\n1 2\n3")
    elif kind == "truncated roads":
        text = tmp_path / "graph.gr"
        text.write_text("p sp 3 3\na 1 2 1\na 2 3 1\n")
    elif kind == "mixed weights":
        text.write_text("0 1 0.5\n" * 60 + "1 2\n" * 60)
    elif kind == "negative weight":
        text.write_text("0 1 -0.5\n")
    elif kind == "nan":
        text.write_text("0 1 nan\n")
    elif kind == "no edges":
        text.write_text("# nothing\n")
    elif kind == "large ids":
        text.write_text(f"0 {2**62}\n")
    elif kind == "binary":
        text.write_bytes(b"\xff\xfe\x00\n" * 5)
    elif kind == "negative array":
        edges[70, 1] = -3
        np.save(array, edges)
    elif kind == "truncated array":
        np.save(array, edges)
        array.write_bytes(array.read_bytes()[:-100])
    elif kind == "floats":
        np.save(array, edges.astype(float))
    elif kind == "shape":
        np.save(array, np.zeros((3, 5), int))
    else:
        arrays = {"out of range": {"num_nodes": 20}, "too many nodes": {"num_nodes": 2**31}}[kind]
        np.savez(tmp_path / "graph.npz", edge_index=edges.T, **arrays)
        return tmp_path / "graph.npz"
    return text if text.exists() else array


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("negative text", "ids from 0"),
        ("half a line", "expected 'u v'"),
        ("truncated roads", "truncated"),
        ("mixed weights", "all lines or on none"),
        ("negative weight", ">= 0"),
        ("nan", "finite"),
        ("no edges", "holds no edges"),
        ("large ids", "too large for this memory"),
        ("binary", "expected"),
        ("negative array", r"at edge 70"),
        ("truncated array", "truncated"),
        ("floats", "integers"),
        ("shape", r"\[2, E\]"),
        ("out of range", r"ids in \[0, 20\)"),
        ("too many nodes", r"2\^31 - 1"),
    ],
)
@pytest.mark.usefixtures("small_pieces")
def test_bad_files_are_refused(tmp_path, kind, text):
    with pytest.raises(DatasetError, match=text):
        run_external(bad_file(tmp_path, kind), tmp_path / "store")
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    "options",
    [
        {"carry": "auto"},
        {"limit": 1},
        {"workers": 2},
        {"profile": "small"},
        {"exclude": ("x",)},
        {"undirected": True},
        {"relations": "cites"},
        {"type_graph": "same"},
    ],
)
def test_settings_that_are_not_supported_are_refused(tmp_path, options):
    path = write_text(tmp_path / "graph.txt", random_edges())
    with pytest.raises(InputError, match="memory"):
        run_external(path, tmp_path / "store", **options)


def test_other_datasets_are_refused(tmp_path):
    (tmp_path / "a.bin").write_bytes(b"1")
    for name, text in (
        ("molecules", "no file"),
        (str(tmp_path / "a.bin"), "piece by piece"),
        (str(tmp_path), "folder"),
    ):
        with pytest.raises(DatasetError, match=text):
            run_external(name, tmp_path / "store")


def test_memory_that_is_too_small_is_refused_before_anything_is_written(tmp_path):
    np.savez(tmp_path / "graph.npz", edge_index=np.array([[0], [1]]), num_nodes=10**8)
    config = CoarsenConfig(str(tmp_path / "graph.npz"), out=tmp_path / "store", poolers="hem", memory="1GB")
    with pytest.raises(InputError, match="100,000,000 nodes: expected at least 3932MB, got 1000MB"):
        coarsen_dataset(config)
    assert not (tmp_path / "store").exists()
