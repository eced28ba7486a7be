"""Every command, called as users call it."""

import csv
import errno
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tgp.engine.methods import METHODS
from tgp_cli.main import build_app

SMALL = ["--dataset", "molecules:num_graphs=40"]


def invoke(*arguments):
    words = [str(a) for a in arguments]
    return CliRunner().invoke(build_app(words), words)


def tgp(*arguments, **options):
    return subprocess.run(
        [sys.executable, "-m", "tgp_cli.main", *map(str, arguments)],
        capture_output=True,
        text=True,
        **options,
    )


def digest(folder: Path):
    files = (p for p in sorted(folder.rglob("*")) if p.is_file() and p.name != ".lock")
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli") / "store"
    result = invoke(
        "coarsen", *SMALL, "-p", "graclus*2", "-p", "nopool", "-o", folder, "--shard-size", "12kB"
    )
    assert result.exit_code == 0, result.output
    return folder


@pytest.fixture
def copy(store, tmp_path):
    return Path(shutil.copytree(store, tmp_path / "copy"))


# coarsen


def test_coarsen_without_options_works_in_any_folder(tmp_path):
    first = tgp("coarsen", cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    assert re.search(r"pooled/molecules: 500 graphs in .* graphs/s, .* in 1 shard", first.stdout)
    assert "graclus-x2: nodes" in first.stdout
    before = digest(tmp_path)
    second = tgp("coarsen", cwd=tmp_path)
    assert second.returncode == 0 and "up to date" in second.stdout
    assert digest(tmp_path) == before
    other = tmp_path / "elsewhere"
    other.mkdir()
    assert tgp("coarsen", "--quiet", "--out", "x", cwd=other).stdout == ""
    assert digest(other / "x") == digest(tmp_path / "pooled" / "molecules")
    listed = tgp("inspect", cwd=tmp_path)
    assert "pooled/molecules" in listed.stdout and "complete" in listed.stdout


def test_coarsen_json_prints_only_json(tmp_path):
    result = tgp("coarsen", *SMALL, "-o", tmp_path / "s", "--json")
    assert result.stderr == ""
    report = json.loads(result.stdout)
    assert (report["status"], report["num_graphs"], report["failures"]) == ("complete", 40, [])


def test_dry_run(tmp_path):
    result = invoke("coarsen", *SMALL, "-o", tmp_path / "s", "--dry-run")
    assert result.exit_code == 0 and "Would coarsen 40 graphs" in result.stdout
    assert not (tmp_path / "s").exists()
    assert json.loads(invoke("coarsen", *SMALL, "-n", "--json").stdout)["num_units"] == 1


def test_other_settings_are_an_error_that_names_the_difference(copy):
    before = digest(copy)
    result = invoke("coarsen", *SMALL, "-p", "graclus*2", "-o", copy, "--seed", "5")
    assert result.exit_code == 2 and result.stdout == ""
    assert "seed 0 in the store, 5 asked for" in result.stderr and "--force" in result.stderr
    assert digest(copy) == before
    assert (
        invoke("coarsen", *SMALL, "-p", "graclus*2", "-o", copy, "--seed", "5", "--force", "-q").exit_code
        == 0
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--pooler", "graklus"], "'graclus'"),
        (["--pooler", "mincut"], "Hint: mincut is trained with the model"),
        (["MUTAG"], "--dataset MUTAG"),
        (["--pooler", "graclus:ordr=index"], "'order'"),
        (["--pooler", "graclus:order=best"], "order"),
        (["--pooler", "graclus,,nopool"], "comma"),
        (["--pooler", ""], "at least one level"),
        (["--dataset", "MUTAGG"], "'MUTAG'"),
        (["--shard", "5/3"], "i/N"),
        (["--shard-size", "many"], "64MB"),
        (["--profile", "tiny"], "fast"),
        (["--workers", "0"], "workers"),
        (["--limit", "0"], "limit"),
        (["--config", "none.toml"], "none.toml"),
        (["--name", "a/b"], "'a/b'"),
    ],
)
def test_wrong_options_are_usage_errors(tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    result = invoke("coarsen", *arguments)
    assert result.exit_code == 2 and result.stdout == ""
    assert message in result.stderr and "Traceback" not in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_configuration_file(tmp_path):
    (tmp_path / "c.toml").write_text(
        f'dataset = "er:num_graphs=3"\npooler = "nopool"\nout = "{tmp_path / "s"}"\n'
    )
    assert invoke("coarsen", "--config", tmp_path / "c.toml", "--limit", "2", "--json").exit_code == 0
    assert json.loads(invoke("inspect", tmp_path / "s", "--json").stdout)["num_graphs"] == 2


def test_a_failed_download_names_the_expected_folder(tmp_path):
    env = {**os.environ, "https_proxy": "http://127.0.0.1:9", "HTTPS_PROXY": "http://127.0.0.1:9"}
    result = tgp("coarsen", "-d", "PROTEINS", "--root", tmp_path, cwd=tmp_path, env=env, timeout=600)
    assert result.returncode == 2 and result.stdout == ""
    assert (
        str(tmp_path / "TUDataset" / "PROTEINS" / "raw") in result.stderr and "Traceback" not in result.stderr
    )


def test_a_full_disk_exits_with_4(tmp_path, monkeypatch):
    from tgp.store import StoreWriter

    def full(self, *args, **kwargs):
        from tgp.errors import StoreFullError

        raise StoreFullError("no space left while writing x", hint="Free some space.")

    monkeypatch.setattr(StoreWriter, "write_graphs", full)
    result = invoke("coarsen", *SMALL, "-o", tmp_path / "s")
    assert result.exit_code == 4 and "no space left" in result.stderr
    monkeypatch.undo()
    assert invoke("coarsen", *SMALL, "-o", tmp_path / "s", "-q").exit_code == 0
    assert errno.ENOSPC


def test_failed_graphs_exit_with_3(tmp_path, monkeypatch):
    import tgp.engine.coarsening as engine
    from tgp.errors import GraphError

    whole = engine.assign_level

    def assign(block, spec, draw):
        if block.num_graphs == 1 or block.node_ptr[-1] > 60:
            raise GraphError("will not do")
        return whole(block, spec, draw)

    monkeypatch.setattr(engine, "assign_level", assign)
    monkeypatch.setattr("tgp.build.run.warm_up", lambda *a: 0.0)
    result = invoke(
        "coarsen", "-d", "molecules:num_graphs=3", "-p", "graclus", "-o", tmp_path / "s", "--json"
    )
    assert result.exit_code == 3
    report = json.loads(result.stdout)
    assert {f["graph"] for f in report["failures"]} == {0, 1, 2}
    status = invoke("status", tmp_path / "s")
    assert status.exit_code == 0 and re.search(r"graclus\s+1\s+0\s+3", status.stdout)


@pytest.mark.parametrize("text", ["", "# a comment\n", "no numbers here\n"])
@pytest.mark.parametrize("folder", [False, True])
def test_an_edge_list_without_edges_is_an_error(tmp_path, text, folder):
    (tmp_path / "in").mkdir()
    file = tmp_path / "in" / "graph.txt"
    file.write_text(text)
    result = invoke("coarsen", "-d", tmp_path / "in" if folder else file, "-o", tmp_path / "s")
    assert result.exit_code == 2 and result.stdout == "" and not (tmp_path / "s").exists()
    assert f"{file} holds no edges" in result.stderr and "'u v'" in result.stderr


def test_a_count_of_one_has_a_noun_in_the_singular(tmp_path):
    (tmp_path / "loop.txt").write_text("0 0\n")
    make = ["coarsen", "-d", tmp_path / "loop.txt", "-p", "nopool"]
    one, two = tmp_path / "one", tmp_path / "two"
    words = [
        [*make, "-o", one, "--dry-run"],
        [*make, "-o", one],
        [*make, "-o", one],
        [*make[:-1], "nopool*2", "-o", two],
        ["inspect", one],
        ["inspect", one, "--graph", 0],
        ["inspect", one, "--spectral", "--modes", 1],
        [*make[:-1], "nopool*2", "-o", one],
        ["inspect", one, "--diff", "nopool", "nopool-x2"],
        ["status", one],
        ["merge", one],
        ["export", one, "--hierarchy", "nopool", "--to", "graphml", "--graphs", 0, "-o", tmp_path / "x"],
    ]
    shown = "".join(invoke(*line).stdout for line in words)
    nouns = "graph|node|edge|level|file|shard|unit|epoch|eigenvalue"
    assert re.findall(rf"(?<![\d.,])1 (?:{nouns})s(?!/s)", shown) == []
    found = set(re.findall(rf"(?<![\d.,])1 ({nouns})\b", shown))
    assert {"graph", "node", "edge", "level", "shard", "unit", "eigenvalue"} <= found


# inspect


def test_inspect_as_text(store):
    result = invoke("inspect", store)
    assert result.exit_code == 0
    assert "40 graphs of builtin/molecules" in result.stdout
    assert re.search(r"graclus-x2 +1 +graclus", result.stdout)
    assert "modularity  edge weight inside supernodes" in result.stdout
    heading = next(line for line in result.stdout.splitlines() if re.match("hierarchy +level", line))
    assert heading.split() == [
        "hierarchy",
        "level",
        "method",
        "nodes",
        "edges",
        "ratio",
        "components",
        "modularity",
    ]


def test_inspect_shows_all_figures_on_request(store):
    view = json.loads(invoke("inspect", store, "--json").stdout)
    shown = invoke("inspect", store, "--all").stdout
    low, high = view["input"]["node_range"]
    assert re.search(rf"^input .* {low} \S.* {high}$", shown, re.M)
    for label in ("dropped nodes", "singletons", "flat entropy", "cluster sizes", "failed graphs"):
        assert label in shown and label not in invoke("inspect", store).stdout
    assert invoke("inspect", store, "--all", "--graph", "1").exit_code == 2


def test_inspect_shows_the_findings(tmp_path):
    out = tmp_path / "er"
    invoke("coarsen", "-d", "er:num_graphs=9:num_nodes=20:degree=3", "-p", "random:ratio=0.99", "-o", out)
    findings = json.loads(invoke("inspect", out, "--json").stdout)["findings"]
    assert "stalled" in {finding["kind"] for finding in findings}
    shown = invoke("inspect", out).stdout
    for finding in findings:
        assert finding["text"] in shown and finding["hint"] in shown


def test_inspect_as_json_and_csv(store):
    view = json.loads(invoke("inspect", store, "--json").stdout)
    assert [h["name"] for h in view["hierarchies"]] == ["graclus-x2", "nopool"]
    rows = list(csv.DictReader(io.StringIO(invoke("inspect", store, "--csv").stdout)))
    assert [r["method"] for r in rows] == ["graclus", "graclus", "nopool"]
    assert int(rows[0]["nodes"]) == view["hierarchies"][0]["levels"][0]["nodes"]
    assert invoke("inspect", store, "--csv", "--json").exit_code == 2


def test_inspect_thresholds_and_graph(store):
    result = invoke("inspect", store, "--fail-if", "ratio>0.95")
    assert result.exit_code == 1 and "nopool, level 1: ratio = 1" in result.stderr
    assert invoke("inspect", store, "--fail-if", "ratio>0.95", "--hierarchy", "graclus-x2").exit_code == 0
    assert "graph 3:" in invoke("inspect", store, "--graph", 3).stdout


def test_inspect_diff(store, copy):
    assert invoke("inspect", "--diff", store, copy).exit_code == 0
    result = invoke("inspect", store, "--diff", "graclus-x2", "nopool", "--json")
    assert result.exit_code == 1 and json.loads(result.stdout)[0]["levels"][0]["different"] == 40


def test_inspect_without_stores(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = invoke("inspect")
    assert result.exit_code == 0 and "No stores" in result.stdout
    missing = invoke("inspect", "nowhere")
    assert missing.exit_code == 2 and "nowhere" in missing.stderr


@pytest.mark.parametrize(
    "command", [("inspect",), ("inspect", "--json"), ("inspect", "--spectral"), ("verify",), ("status",)]
)
def test_commands_that_read_import_neither_torch_nor_numba(store, command):
    name, *rest = command
    code = (
        "import sys; from tgp_cli.main import run; status = run(sys.argv[1:]); "
        "print(status, [m for m in ('torch', 'numba') if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, name, str(store), *rest], capture_output=True, text=True
    )
    assert done.stderr.strip().endswith("0 []")


# verify


def test_verify(store):
    result = invoke("verify", store)
    assert result.exit_code == 0 and "is sound" in result.stdout
    deep = invoke("verify", store, "--deep", "--sample", 10, "--json")
    assert deep.exit_code == 0 and json.loads(deep.stdout)["sound"] is True
    assert invoke("verify", store, "--all", "-q").exit_code == 0


def test_verify_finds_a_flipped_bit(copy):
    shard = copy / "shard-00001.graclus-x2.h5"
    content = bytearray(shard.read_bytes())
    content[len(content) // 2] ^= 1
    shard.write_bytes(content)
    result = invoke("verify", copy)
    assert result.exit_code == 1 and shard.name in result.stdout
    assert json.loads(invoke("verify", copy, "--json").stdout)["findings"][0]["shard"] == shard.name


# status, merge, export


def test_jobs_status_and_merge(tmp_path):
    out = tmp_path / "s"
    base = ["coarsen", *SMALL, "-p", "graclus*2", "--shard-size", "10kB", "-o", out]
    part = invoke(*base, "--shard", "0/2")
    assert part.exit_code == 0 and "still missing" in part.stdout
    status = invoke("status", out, "--jobs", 2)
    assert status.exit_code == 3 and "Jobs with work to do: 1" in status.stdout
    assert invoke("status", out, "--jobs", 2, "--missing").stdout == "1\n"
    report = json.loads(invoke("status", out, "--json").stdout)
    merge = invoke("merge", out)
    assert merge.exit_code == 3 and report["array"] in merge.stdout
    assert invoke(*base, "--shard", "1/2", "-q").exit_code == 0
    assert "is up to date" in invoke("merge", out).stdout
    (out / "manifest.json").unlink()
    assert invoke("status", out).exit_code == 3
    merged = invoke("merge", out)
    assert f"{out}: 40 graphs, " in merged.stdout and f"Next: tgp inspect {out}\n" in merged.stderr
    assert invoke("merge", tmp_path / "nowhere").exit_code == 2


def test_merging_a_complete_store_writes_nothing(copy):
    for lock in copy.rglob(".lock"):
        lock.unlink()
    folders = [copy, *(p for p in copy.iterdir() if p.is_dir())]

    def state():
        return {p: (p.stat().st_ino, p.stat().st_mtime_ns) for p in (copy, *copy.rglob("*"))}

    before = state()
    for folder in folders:
        folder.chmod(0o555)
    result = invoke("merge", copy)
    for folder in folders:
        folder.chmod(0o755)
    assert result.exit_code == 0 and "is up to date (40 graphs" in result.stdout, result.stderr
    assert state() == before  # a superuser ignores the permissions, so compare the files, too


def test_the_error_of_an_incomplete_store_has_a_hint(tmp_path):
    base = ["coarsen", *SMALL, "--shard-size", "10kB", "-o", tmp_path / "s", "--shard", "0/2", "-q"]
    assert invoke(*base).exit_code == 0
    for command in ("inspect", "verify", "report"):
        result = invoke(command, tmp_path / "s")
        assert result.exit_code == 2 and "run the same" in result.stderr and "it continues" in result.stderr
        text = " ".join(result.stderr.split())
        assert f"{tmp_path / 's'} is incomplete" in text and f"'tgp status {tmp_path / 's'}'" in text


@pytest.mark.parametrize("command", ["verify", "report", "plot", "export", "status", "merge", "view"])
def test_a_command_without_a_store_says_where_stores_are_listed(command):
    result = invoke(command)
    assert result.exit_code == 2 and "Hint: 'tgp inspect' lists the stores below ./pooled." in result.stderr


def test_export(store, tmp_path):
    result = invoke("export", store, "--to", "npz", "-o", tmp_path / "x", "--hierarchy", "nopool", "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["files"] == ["graphs.npz", "level-1.npz"]
    again = invoke("export", store, "--to", "npz", "-o", tmp_path / "x", "--hierarchy", "nopool")
    assert again.exit_code == 2 and "--force" in again.stderr
    assert invoke("export", store, "--to", "xls").exit_code == 2


# poolers, datasets


def test_poolers():
    rows = {r["alias"]: r for r in json.loads(invoke("poolers", "--json").stdout)}
    assert rows["graclus"]["precoarsenable"] and rows["mincut"]["trainable"] and "random" in rows
    only = json.loads(invoke("poolers", "--precoarsenable", "--json").stdout)
    assert all(r["precoarsenable"] for r in only) and len(only) < len(rows)
    card = invoke("poolers", "GRACLUS")
    assert "order" in card.stdout and "tgp coarsen --pooler graclus" in card.stdout
    assert "layer" in invoke("poolers", "mincut").stdout
    assert "'graclus'" in invoke("poolers", "gracluss").stderr


def test_parameters_are_listed_with_their_choices():
    shown = invoke("poolers", "kmis").stdout
    for line in (
        "connect_red_op sum, mean, min, max, mul; default sum",
        "score_heuristic greedy, w-greedy, none; default greedy",
        "order_k int; default 1",
    ):
        assert line in [" ".join(row.split()) for row in shown.splitlines()]
    card = json.loads(invoke("poolers", "graclus", "--json").stdout)
    assert {p["name"]: p["type"] for p in card["parameters"]}["order"] == "random, degree, index"
    for name in METHODS.entries:
        assert not re.search(r"Literal|ReduceOp|Scorer|Heuristic", invoke("poolers", name).stdout)


def test_datasets(tmp_path):
    (tmp_path / "TUDataset/MUTAG/raw").mkdir(parents=True)
    for name in ("A", "graph_indicator"):
        (tmp_path / f"TUDataset/MUTAG/raw/MUTAG_{name}.txt").touch()
    rows = {r["name"]: r for r in json.loads(invoke("datasets", "--root", tmp_path, "--json").stdout)}
    assert rows["molecules"]["local"] and rows["MUTAG"]["local"] and not rows["PROTEINS"]["local"]
    assert "REDDIT-BINARY" in invoke("datasets", "reddit").stdout
    assert "MUTAG" in invoke("datasets", "--local", "--root", tmp_path).stdout
    nothing = invoke("datasets", "zzz")
    assert "No dataset matches" in nothing.stdout and not nothing.stderr
    assert "Hint: did you mean 'MUTAG'?" in invoke("datasets", "MUTAAG").stderr
    assert not invoke("datasets", "MUTAAG", "--json").stderr
