"""Inputs and settings of runs in bounded memory: kinds of files, both directions, refusals, progress, leftovers."""

import os
import re
from pathlib import Path

import numpy as np
import pytest

from tests.build.test_external import (
    SCHEDULE,
    assert_same_store,
    files_of,
    invoke,
    random_edges,
    run_external,
    run_in_memory,
    small_pieces,  # noqa: F401 - a fixture
    write_text,
)
from tests.sources.test_edge_files import KINDS, make_edges, write_file, write_parquet
from tgp.build import CoarsenConfig, coarsen_dataset, external, external_input, external_plan, plan_run
from tgp.engine.external.journal import Journal
from tgp.engine.level_method import GraphSizes
from tgp.engine.schedule import parse_schedule
from tgp.engine.unit_plan import bound_work
from tgp.errors import DatasetError, InputError, StoreError, StoreMismatchError
from tgp.input_limits import physical_memory
from tgp.inspect import doctor


@pytest.mark.usefixtures("small_pieces")
def test_all_kinds_of_files_lead_to_the_same_store(tmp_path):
    edges, _ = make_edges()
    run_external(write_text(tmp_path / "graph.txt", edges), tmp_path / "whole")
    for number, kind in enumerate(KINDS):
        if kind == "a.parquet":
            pytest.importorskip("pyarrow")
        run_external(write_file(tmp_path, kind, edges), tmp_path / f"s{number}")
        assert files_of(tmp_path / f"s{number}") == files_of(tmp_path / "whole"), kind
    run_external(tmp_path / "whole", tmp_path / "from_store")
    assert files_of(tmp_path / "from_store") == files_of(tmp_path / "whole")


@pytest.mark.parametrize("kind", ["npz", "store", "parquet"])
@pytest.mark.usefixtures("small_pieces")
def test_edges_that_are_listed_in_both_directions_keep_their_weights(tmp_path, kind):
    edges, weight = make_edges()
    np.savez(tmp_path / "one.npz", edge_index=edges.T, edge_weight=weight)
    run_external(tmp_path / "one.npz", tmp_path / "whole")
    loops = edges[:, 0] == edges[:, 1]
    both = np.concatenate([edges, edges[~loops][:, ::-1]])
    order = np.random.default_rng(2).permutation(len(both))
    both, weights = both[order], np.concatenate([weight, weight[~loops]])[order]
    path = tmp_path / "whole"
    if kind == "npz":
        path = tmp_path / "both.npz"
        np.savez(path, edge_index=both.T, edge_weight=weights)
    elif kind == "parquet":
        path = write_file(tmp_path, "a.parquet", both, weights)
    run_external(path, tmp_path / "store")
    assert files_of(tmp_path / "store") == files_of(tmp_path / "whole")
    np.savez(tmp_path / "odd.npz", edge_index=both.T[:, 1:], edge_weight=weights[1:])  # one is missing
    run_external(tmp_path / "odd.npz", tmp_path / "odd")
    assert files_of(tmp_path / "odd") != files_of(tmp_path / "whole")


@pytest.mark.usefixtures("small_pieces")
def test_different_weights_of_the_two_directions_are_added_up(tmp_path):
    edges, weight = np.array([[0, 1], [1, 0], [1, 2], [2, 1]]), np.array([1.0, 2.0, 4.0, 4.0], np.float32)
    np.savez(tmp_path / "graph.npz", edge_index=edges.T, edge_weight=weight)
    run_external(tmp_path / "graph.npz", tmp_path / "store")
    assert_same_store(tmp_path / "store", run_in_memory(tmp_path, edges, weight))


@pytest.mark.usefixtures("small_pieces")
def test_a_list_with_both_directions_needs_half_of_the_bucket_files(tmp_path, monkeypatch):
    edges, _ = make_edges()
    np.save(tmp_path / "one.npy", edges)
    np.save(tmp_path / "both.npy", np.concatenate([edges, edges[:, ::-1]]))
    sizes = {}
    record = Journal.record

    def count(journal, step, facts):
        if step == "input:fill":
            sizes[journal.folder.name] = facts["entries"]
        record(journal, step, facts)

    monkeypatch.setattr(Journal, "record", count)
    for name in ("one", "both"):
        run_external(tmp_path / f"{name}.npy", tmp_path / name)
    loops = int((edges[:, 0] == edges[:, 1]).sum())
    assert sizes == {"one.scratch": 2 * len(edges) - loops, "both.scratch": 2 * len(edges)}
    assert files_of(tmp_path / "one") == files_of(tmp_path / "both")


@pytest.mark.usefixtures("small_pieces")
def test_duplicates_and_self_loops(tmp_path):
    """Weights of duplicates are added up, in each direction; a self loop is stored once."""
    edges = np.array([[0, 1], [1, 0], [0, 1], [2, 2], [2, 1], [2, 2], [3, 0]])
    weight = np.arange(1, 8, dtype=np.float32)
    run_external(write_text(tmp_path / "graph.txt", edges, weight), tmp_path / "store")
    assert_same_store(tmp_path / "store", run_in_memory(tmp_path, edges, weight))


def test_stores_of_several_graphs_are_refused(tmp_path):
    coarsen_dataset(CoarsenConfig("er:num_graphs=2", out=tmp_path / "two"))
    with pytest.raises(DatasetError, match="must hold one graph"):
        run_external(tmp_path / "two", tmp_path / "store")


@pytest.mark.parametrize("keep_time", [False, True])
@pytest.mark.parametrize("kind", ["npy", "parquet"])
@pytest.mark.usefixtures("small_pieces")
def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path, monkeypatch, kind, keep_time):
    """Ids of the second pass would be positions outside of the arrays of the first one."""
    path, edges = tmp_path / f"graph.{kind}", random_edges()
    write = np.save if kind == "npy" else lambda path, edges: write_parquet(path, edges, None)
    number_nodes = external_input._number_nodes

    def change(*arguments):
        before = path.stat()
        write(path, edges + 10**7)
        if keep_time:
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        return number_nodes(*arguments)

    write(path, edges)
    monkeypatch.setattr(external_input, "_number_nodes", change)
    with pytest.raises(DatasetError, match="has changed while it was read"):
        run_external(path, tmp_path / "store")
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("is_deleted", [False, True])
@pytest.mark.usefixtures("small_pieces")
def test_a_file_that_changes_within_its_range_of_ids_is_refused(tmp_path, monkeypatch, is_deleted):
    path, edges = tmp_path / "graph.npy", random_edges()
    merge_buckets = external_input.merge_buckets

    def change(*arguments, **options):
        if is_deleted:
            path.unlink()
        else:
            np.save(path, edges[::-1])
            os.utime(path, ns=(1, 1))
        return merge_buckets(*arguments, **options)

    np.save(path, edges)
    monkeypatch.setattr(external_input, "merge_buckets", change)
    with pytest.raises(DatasetError, match="has changed while it was read"):
        run_external(path, tmp_path / "store")
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name] * (not is_deleted)


@pytest.mark.usefixtures("small_pieces")
def test_an_interrupted_run_of_a_file_that_has_changed_starts_again(tmp_path, monkeypatch):
    path, edges = tmp_path / "graph.npy", random_edges()
    np.save(path, edges)

    def interrupt(*arguments, **options):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(external_input, "merge_buckets", interrupt)
        with pytest.raises(KeyboardInterrupt):
            run_external(path, tmp_path / "store")
    assert (tmp_path / "store.scratch").exists()
    np.save(path, edges[:-100])
    run_external(path, tmp_path / "store")
    assert_same_store(tmp_path / "store", run_in_memory(tmp_path, edges[:-100]))


def test_a_store_of_other_settings_is_refused_before_the_file_is_read(tmp_path, monkeypatch):
    path, store = write_text(tmp_path / "graph.txt", random_edges(50, 200)), tmp_path / "store"
    run_external(path, store, "hem")
    monkeypatch.setattr(external, "convert_edges", None)
    for options, text in (
        ({"seed": 1}, "seed 0 in the store, 1 asked for"),
        ({"shard_edges": 9}, "shard_edges"),
    ):
        config = CoarsenConfig(str(path), out=store, poolers="hem", memory="1GB", **options)
        for function in (coarsen_dataset, plan_run):
            with pytest.raises(StoreMismatchError, match=text):
                function(config)
    assert not (tmp_path / "store.scratch").exists()


@pytest.mark.parametrize("kind", ["file", "directory"])
def test_a_store_that_cannot_be_written_is_refused_before_the_file_is_read(tmp_path, monkeypatch, kind):
    path, store = write_text(tmp_path / "graph.txt", random_edges(50, 200)), tmp_path / "store"
    if kind == "file":
        store.touch()
    else:
        store.mkdir()
        monkeypatch.setattr(external_plan.os, "access", lambda path, mode: False)
    with pytest.raises(StoreError, match=r"expected a directory, got a file|Permission denied"):
        run_external(path, store, "hem")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["graph.txt", "store"]


def test_a_machine_with_less_memory_than_the_nodes_need_is_named(monkeypatch):
    monkeypatch.setattr(external_plan, "physical_memory", lambda: 5 * 10**9)
    with pytest.raises(InputError) as caught:
        external_plan.choose_limits(10**9, 10**8)
    monkeypatch.setattr(external_plan, "physical_memory", lambda: 2 * 10**9)
    with pytest.raises(InputError) as other:
        external_plan.choose_limits(10**9, 10**8)
    assert caught.value.hint == "allow --memory 3932MB" and "a machine with more memory" in other.value.hint


def test_a_store_of_other_graphs_is_refused_and_leaves_no_temporary_files(tmp_path):
    path, store = tmp_path / "graph.txt", tmp_path / "store"
    run_external(write_text(path, random_edges(50, 200)), store, "hem")
    with pytest.raises(StoreMismatchError, match="the graphs are not those of the store"):
        run_external(write_text(path, random_edges(50, 200, seed=1)), store, "hem")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["graph.txt", "store"]
    assert run_external(path, store, "hem", force=True).status == "complete"


def test_more_memory_than_the_machine_has_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(external_plan, "physical_memory", lambda: 3 * 10**9)
    message = refused(tmp_path, "--memory", "4GB")
    assert "expected at most 3000MB, got 4000MB" in message and "--memory auto" in message


def refused(tmp_path, *options):
    """Run the command with an option that is not supported and return its message."""
    path = write_text(tmp_path / "graph.txt", random_edges(20, 50))
    pooler = [] if "-p" in options else ["-p", "hem"]
    result = invoke(
        ["coarsen", "-d", str(path), *pooler, "--memory", "1GB", "-o", str(tmp_path / "s"), *options]
    )
    assert result.exit_code == 2 and [entry.name for entry in tmp_path.iterdir()] == ["graph.txt"]
    return " ".join(result.output.split())


@pytest.mark.parametrize(
    ("options", "text", "hint"),
    [
        (("--carry", "auto"), "carry cannot be combined with memory", "tgp.reduce"),
        (("--profile", "small"), "profile=small cannot", "leave it out"),
        (("--workers", "2"), "workers cannot be combined", "--threads"),
        (("--limit", "1"), "limit cannot be combined", "one graph"),
        (("--undirected",), "undirected cannot be combined", "always added"),
        (("-p", "hem", "-p", "hem*2"), "several schedules", "another --out"),
        (("-p", "ndp"), "ndp needs the graph in memory", "leave --memory out"),
        (
            ("-p", "hem,sep"),
            "sep needs the graph in memory: expected one of graclus, kmis, hem",
            "tgp poolers sep",
        ),
        (("-p", "hem:ratio=0.1"), "hem with ratio=0.1 needs the graph in memory", "hem*5"),
        (
            ("-p", "hem:degree_norm=true"),
            "hem with degree_norm=true needs the graph in memory",
            "leave it out",
        ),
        (("-p", "hem:connect_red_op=mean"), "connect_red_op=mean", "use sum"),
        (("-p", "hem*"), "computed one by one", "number of levels"),
        (("-p", "hem*", "--until", "5"), "until cannot be combined", "hem*5"),
        (("--memory", "100MB"), "the memory is too small: expected at least", "such as --memory 415MB"),
        (("--memory", "much"), "expected a size such as 64MB", ""),
    ],
)
def test_a_refused_setting_is_named_with_what_to_do(tmp_path, options, text, hint):
    message = refused(tmp_path, *options)
    assert text in message and hint in message.partition("Hint:")[2]


def test_auto_is_the_memory_of_the_machine(monkeypatch):
    assert CoarsenConfig("graph.txt", memory="auto").memory == physical_memory() // 5 * 4
    monkeypatch.setattr("tgp.build.settings.physical_memory", lambda: 1 << 62)
    with pytest.raises(InputError, match="is not known"):
        CoarsenConfig("graph.txt", memory="auto")


@pytest.mark.parametrize("kind", ["a.txt.gz", "a.npy"])
def test_a_file_that_does_not_fit_in_memory_leads_to_the_option(tmp_path, monkeypatch, kind):
    edges, _ = make_edges()
    path = write_file(tmp_path, kind, edges)
    arguments = ["coarsen", "-d", str(path), "-p", "hem", "-o", str(tmp_path / "s")]
    monkeypatch.setattr(external_plan, "physical_memory", lambda: 1000)
    for option in ([], ["--dry-run"]):
        result = invoke([*arguments, *option])
        assert result.exit_code == 2 and not (tmp_path / "s").exists()
        assert "does not fit in memory: expected at most 10 edges" in " ".join(result.output.split())
        assert "--memory auto" in result.output
    assert invoke([*arguments, "--max-input", "1GB"]).exit_code == 0  # the user knows better


@pytest.mark.usefixtures("small_pieces")
def test_progress_counts_edges_in_each_stage(tmp_path):
    path, steps = write_text(tmp_path / "graph.txt", random_edges()), []
    config = CoarsenConfig(str(path), out=tmp_path / "store", poolers=SCHEDULE, memory="1GB")
    coarsen_dataset(config, progress=steps.append)
    seen = {}
    for step in steps:
        assert 0 <= step.done <= step.total or not step.total
        assert 0.0 <= step.share <= 1.0
        seen[step.stage] = max(seen.get(step.stage, 0), step.total)
    for action in ("reading", "counting", "sorting", "merging"):
        assert seen[f"graph.txt: {action}"] >= 1500
    for level in (1, 2, 3):
        assert f"level {level} of 3: assigning nodes" in seen
        assert seen[f"level {level} of 3: sorting"] and seen[f"level {level} of 3: merging"]
    assert {"computing the digest:", "writing the graph:", "writing the levels:"} <= set(seen)
    counted = next(step for step in steps[::-1] if step.stage == "graph.txt: sorting")
    assert "graph.txt: sorting" in counted.describe(stage=True) and " edges, " in counted.describe(stage=True)


def test_leftover_temporary_files_are_shown(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_text(tmp_path / "graph.txt", random_edges(20, 50))
    arguments = ["coarsen", "-d", "./graph.txt", "-p", "hem", "--memory", "1GB", "-q"]
    record = Journal.record

    def interrupt_after(name):
        def interrupt(journal, step, facts):
            record(journal, step, facts)
            if step == name:
                raise KeyboardInterrupt

        return interrupt

    for stop, status in (("input:fill", 2), ("level1:merge", 3)):
        monkeypatch.setattr(Journal, "record", interrupt_after(stop))
        result = invoke(arguments)
        assert result.exit_code == 130 and "Run the same command again to continue" in result.output
        result = invoke(["status", "pooled/graph"])
        assert result.exit_code == status and "pooled/graph.scratch" in result.output.replace("\n", "")
        assert "same 'tgp coarsen' command" in " ".join(result.output.split())
        (check,) = [check for check in doctor.examine() if check.name == "unfinished run"]
        assert "pooled/graph.scratch" in check.value and "delete the folder" in check.advice
    monkeypatch.setattr(Journal, "record", record)
    assert invoke(arguments).exit_code == 0
    assert [entry.name for entry in (tmp_path / "pooled").iterdir()] == ["graph"]
    assert not [check for check in doctor.examine() if check.name == "unfinished run"]


def test_memory_that_is_too_small_for_the_buckets_is_refused_before_the_start(tmp_path):
    edges = np.lib.format.open_memmap(tmp_path / "graph.npy", "w+", np.int32, (3 * 10**8, 2))  # a sparse file
    del edges
    for options in ([], ["--dry-run"]):
        arguments = ["coarsen", "-d", str(tmp_path / "graph.npy"), "-p", "hem", "--memory", "340MB"]
        result = invoke([*arguments, "-o", str(tmp_path / "s"), *options])
        assert (
            result.exit_code == 2 and "for about 300,000,000 edges: expected at least 348MB" in result.output
        )
        assert [entry.name for entry in tmp_path.iterdir()] == ["graph.npy"]


def test_the_guide_has_the_memory_of_each_method():
    text = (Path(__file__).parents[2] / "docs" / "guide" / "larger-than-memory.md").read_text()
    rows = re.findall(r"^\| `([^`]+)`[^|]*\| (\d+) \| (\d+) \|$", text, flags=re.M)
    assert {name.partition(":")[0] for name, *_ in rows} >= {"sep", "ndp", "nmf", "eigen", "lv", "hem"}
    for name, per_node, per_edge in rows:
        sizes = [(10**6, 4 * 10**6), (2 * 10**6, 4 * 10**6), (10**6, 8 * 10**6)]
        nodes, edges = (np.array(column) for column in zip(*sizes, strict=True))
        graphs = GraphSizes(nodes, edges, np.full(3, 50), False)
        base, more_nodes, more_edges = bound_work(graphs, [parse_schedule(name)]).memory
        assert round((more_nodes - base) / 10**6) == int(per_node), name
        assert round((more_edges - base) / (4 * 10**6)) == int(per_edge), name
