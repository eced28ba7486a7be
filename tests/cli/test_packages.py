"""Methods and poolers of other packages, found through entry points."""

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from tgp.engine.level_method import LevelMethod
from tgp.errors import PackageError
from tgp.registry import Entry, LazyRegistry

METHOD = """
from dataclasses import dataclass

import numpy as np

from tgp.engine.contraction import ContractOptions, contract
from tgp.engine.level_method import LevelMethod
from tgp.ragged import Assignment


@dataclass(frozen=True)
class Params:
    depth: int = 1


def assign(block, params, draw):
    keep = np.arange(block.num_nodes, dtype=np.int32)
    return Assignment("hard", block.node_ptr, keep)


def connect(block, assignment, params):
    return contract(block, assignment, ContractOptions())


METHOD = LevelMethod("tiny", Params, assign, connect)
"""
POOLER = """
from tgp.src.mlp import MLPPooling


class Tiny(MLPPooling):
    def __init__(self, in_channels, k, batched=True):
        super().__init__(in_channels, k, batched=batched)
"""


def install(site, name, version, points, **modules):
    """Write a package in the layout of an installed one; ``points`` is its ``entry_points.txt``."""
    site.mkdir(exist_ok=True)
    for module, text in modules.items():
        (site / f"{module}.py").write_text(text)
    for old in site.glob(f"{name.replace('-', '_')}-*.dist-info"):
        for file in old.iterdir():
            file.unlink()
        old.rmdir()
    info = site / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nSummary: A tiny thing\n"
    )
    (info / "entry_points.txt").write_text(points)
    (info / "RECORD").write_text("")
    return site


def tgp(*arguments, site=None, code=None, **options):
    env = dict(os.environ)
    if site is not None:
        env["PYTHONPATH"] = os.pathsep.join([str(site), env.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    start = ["-m", "tgp_cli.main"] if code is None else ["-c", code]
    command = [sys.executable, *start, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=env, timeout=600, **options)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A folder with a correct package that has a method and a pooler, and with packages that have faults."""
    site = tmp_path_factory.mktemp("packages") / "site"
    methods = "[tgp.methods]\ntiny = tiny_method:METHOD\nmincut = tiny_method:METHOD\n"
    poolers = "[tgp.poolers]\ntinier = tiny_pooler:Tiny\nrandom = tiny_pooler:Tiny\n"
    install(site, "tiny-leaves", "1.0", methods + poolers, tiny_method=METHOD, tiny_pooler=POOLER)
    faults = "\n".join(
        [
            "[tgp.methods]",
            "absent = no_such_module:METHOD",
            "failing = failing_module:METHOD",
            "leaving = leaving_module:METHOD",
            "lacking = tiny_method:OTHER",
            "number = faulty_module:NUMBER",
            "plain = faulty_module",
            "Upper = faulty_module:NUMBER",
            "graclus = faulty_module:NUMBER",
            "twice = faulty_module:NUMBER",
        ]
    )
    install(
        site,
        "faulty",
        "3",
        faults,
        faulty_module="NUMBER = 5",
        failing_module="1 / 0",
        leaving_module="raise SystemExit(0)",
    )
    return install(site, "other", "4", "[tgp.methods]\ntwice = tiny_method:METHOD [extra]\n")


@pytest.fixture(scope="module")
def garbled(tmp_path_factory):
    """A package whose entry points cannot be read. Numba fails in this case, but listings must work."""
    site = tmp_path_factory.mktemp("garbled") / "site"
    return install(site, "garbled", "5", "[tgp.methods]\nthis is no line of an entry point\n")


@pytest.fixture(scope="module")
def store(site, tmp_path_factory):
    """A store of two units with a level of the package, made by two workers."""
    out = tmp_path_factory.mktemp("made") / "store"
    result = tgp(
        *("coarsen", "-d", "molecules:num_graphs=40", "--shard-size", "12kB", "--workers", "2"),
        *("-p", "tiny:depth=2,graclus", "-o", out),
        site=site,
    )
    assert result.returncode == 0, result.stderr
    return out


def test_a_store_names_the_package_of_a_method(store, site):
    manifest = json.loads((store / "manifest.json").read_text())
    (hierarchy,) = manifest["hierarchies"]
    assert hierarchy["schedule"][0] == {
        "method": "tiny",
        "package": {"name": "tiny-leaves", "version": "1.0"},
        "params": {"depth": 2},
    }
    assert "package" not in hierarchy["schedule"][1]
    shown = tgp("inspect", store).stdout
    assert "tiny,graclus (package tiny-leaves 1.0), seed 0" in shown
    again = tgp(
        *("coarsen", "-d", "molecules:num_graphs=40", "--shard-size", "12kB"),
        *("-p", "tiny:depth=2,graclus", "-o", store),
        site=site,
    )
    assert again.returncode == 0 and "up to date" in again.stdout
    deep = tgp("verify", store, "--deep", site=site)
    assert deep.returncode == 0, deep.stdout


READERS = [
    ("inspect",),
    ("inspect", "--json"),
    ("inspect", "--graph", "0"),
    ("verify",),
    ("status",),
    ("merge",),
]


@pytest.mark.parametrize("words", READERS, ids=" ".join)
def test_reading_does_not_import_the_package(store, site, words):
    """Reading a store does not import the packages that it names."""
    code = (
        "import sys; from tgp_cli.main import run; status = run(sys.argv[1:]); "
        "assert not {'tiny_method', 'tiny_pooler'} & set(sys.modules); sys.exit(status)"
    )
    name, *more = words
    for place in (None, site):
        result = tgp(name, store, *more, site=place, code=code)
        assert result.returncode == 0, result.stderr


def test_training_works_without_the_package(store):
    code = """
import sys
from tgp.data import PoolDataLoader, PooledDataset
batch = next(iter(PoolDataLoader(PooledDataset(sys.argv[1]), batch_size=40)))
first, second = batch.pooled_data
assert first.num_nodes == batch.num_nodes > second.num_nodes
"""
    result = tgp(store, code=code)
    assert result.returncode == 0, result.stderr


def test_coarsening_and_recomputing_need_the_package(store, tmp_path):
    deep = tgp("verify", store, "--deep")
    assert deep.returncode == 1
    assert "cannot be recomputed" in deep.stdout and "expected tiny-leaves 1.0" in deep.stdout
    asked = tgp("coarsen", "-p", "tiny", "-o", tmp_path / "s")
    assert asked.returncode == 2 and "Unknown pooler 'tiny'" in asked.stderr


def test_another_version_of_the_package_is_a_mismatch(store, tmp_path):
    points = "[tgp.methods]\ntiny = tiny_method:METHOD\n"
    newer = install(tmp_path / "newer", "tiny-leaves", "1.1", points, tiny_method=METHOD)
    result = tgp(
        *("coarsen", "-d", "molecules:num_graphs=40", "--shard-size", "12kB"),
        *("-p", "tiny:depth=2,graclus", "-o", store),
        site=newer,
    )
    assert result.returncode == 2
    assert "level 1: package version: 1.0 in the store, 1.1 asked for" in result.stderr
    deep = tgp("verify", store, "--deep", site=newer)
    assert deep.returncode == 1 and "got tiny-leaves 1.1" in deep.stdout


def test_listings_name_the_package_and_import_nothing(site):
    code = (
        "import sys; from tgp_cli.main import run; status = run(sys.argv[1:]); "
        "assert not {'tiny_method', 'tiny_pooler', 'torch', 'numba'} & set(sys.modules); sys.exit(status)"
    )
    result = tgp("poolers", site=site, code=code)
    assert result.returncode == 0, result.stderr
    lines = {line.split()[0]: line for line in result.stdout.splitlines()}
    assert lines["tiny"].endswith("tiny-leaves 1.0") and "A tiny thing" in lines["tiny"]
    assert lines["tinier"].split()[-5:] == ["?", "?", "?", "tiny-leaves", "1.0"]
    assert "Warning: faulty 3 offers 'graclus', but that name is taken" in result.stderr
    rows = {row["alias"]: row for row in json.loads(tgp("poolers", "--json", site=site).stdout)}
    assert rows["tiny"]["package"] == "tiny-leaves 1.0" and rows["tiny"]["precoarsenable"]
    assert rows["graclus"]["package"] is None
    mincut = [line for line in result.stdout.splitlines() if line.startswith("mincut ")]
    assert [line.endswith("tiny-leaves 1.0") for line in sorted(mincut, key=len)] == [False, True]
    card = tgp("poolers", "tiny", site=site)
    assert "package tiny-leaves 1.0" in card.stdout and "depth" in card.stdout
    assert "package" not in tgp("poolers").stdout


def test_generated_pages_do_not_depend_on_installed_packages(site):
    tool = Path(__file__).parents[2] / "docs/_tools/reference.py"
    code = (
        "import runpy, sys; pages = runpy.run_path(sys.argv[1]); "
        "print(pages['index_page']('') + pages['groups_table']())"
    )
    alone, installed = tgp(tool, code=code), tgp(tool, site=site, code=code)
    assert alone.returncode == 0 and "`mincut`" in alone.stdout
    assert installed.stdout == alone.stdout, installed.stderr


def test_entry_points_that_cannot_be_read(garbled, monkeypatch):
    result = tgp("poolers", site=garbled)
    assert result.returncode == 0 and "graclus" in result.stdout
    assert "Warning: the entry points of package garbled 5 cannot be read" in result.stderr
    with pytest.raises(KeyError) as caught:
        tables(garbled, monkeypatch)["gracluss"]
    assert caught.value.nearest == "graclus" and "package garbled 5 cannot be read" in caught.value.hint


@pytest.mark.parametrize(
    ("alias", "message"),
    [
        ("absent", "no_such_module:METHOD cannot be imported: ModuleNotFoundError: No module named"),
        ("failing", "failing_module:METHOD cannot be imported: ZeroDivisionError: division by zero"),
        ("leaving", "leaving_module:METHOD cannot be imported: SystemExit: 0"),
        ("lacking", "tiny_method:OTHER cannot be imported: AttributeError"),
        ("number", "faulty_module:NUMBER must be a LevelMethod, got int"),
        ("plain", "expected 'package.module:name', got 'faulty_module'"),
        ("upper", "expected lower-case letters"),
    ],
)
def test_a_faulty_package_fails_when_its_name_is_used(site, monkeypatch, alias, message):
    table = tables(site, monkeypatch)
    assert alias in table and alias in list(table)
    with pytest.raises(PackageError, match=r"of package faulty 3 cannot be used") as caught:
        table[alias]
    assert message in str(caught.value) and caught.value.package == "faulty"
    again = pickle.loads(pickle.dumps(caught.value))  # as if sent by a worker process
    assert (str(again), again.package) == (str(caught.value), "faulty")


def tables(site, monkeypatch):
    monkeypatch.syspath_prepend(str(site))
    own = Entry("graclus", "tgp.engine.methods.graclus:METHOD", "")
    return LazyRegistry("pooler", (own,), group="tgp.methods", of=LevelMethod)


def test_a_name_of_two_packages_is_an_error(site, monkeypatch):
    table = tables(site, monkeypatch)
    with pytest.raises(
        PackageError, match=r"'twice' is provided by more than one package: .* and "
    ) as caught:
        table["twice"]
    for part in ("faulty 3 (faulty_module:NUMBER)", "other 4 (tiny_method:METHOD)"):
        assert part in str(caught.value)
    assert {entry.package for entry in table.all_entries() if entry.alias == "twice"} == {"faulty", "other"}


def test_a_package_cannot_replace_names_of_tgp(site, monkeypatch):
    table = tables(site, monkeypatch)
    assert table["graclus"].name == "graclus" and table.entry("graclus").package is None
    assert [entry.origin for entry in table.ignored_entries()] == ["faulty 3"]


def test_registering_a_name_of_a_package(site, monkeypatch):
    table = tables(site, monkeypatch)
    entry = table.register(Entry("tiny", "tiny_method:METHOD", "said twice"))
    assert (entry.origin, entry.summary, len(table.all_entries())) == (
        "tiny-leaves 1.0",
        "said twice",
        len(list(table)) + 1,
    )
    with pytest.raises(ValueError, match=r"taken by faulty_module:NUMBER of package faulty 3"):
        table.register(Entry("number", "tiny_method:METHOD", ""))
    assert table.register(Entry("number", "tiny_method:METHOD", ""), replace=True).package is None
    assert table["number"].name == "tiny"


def test_a_worker_rejects_another_version(site, monkeypatch):
    table = tables(site, monkeypatch)
    table.entries["tiny"] = Entry("tiny", "tiny_method:METHOD", "", package="tiny-leaves", version="0.9")
    with pytest.raises(PackageError, match=r"tiny-leaves 0\.9 cannot be used: version 1\.0 is installed"):
        table["tiny"]
    table.entries["gone"] = Entry("gone", "tiny_method:METHOD", "", package="gone", version="1")
    with pytest.raises(PackageError, match=r"gone 1 cannot be used: .*PackageNotFoundError"):
        table["gone"]


def test_other_commands_ignore_faulty_packages(site, tmp_path):
    words = ("-d", "molecules:num_graphs=5", "-p", "graclus", "-q", "-o", tmp_path / "s")
    made = tgp("coarsen", *words, site=site)
    assert made.returncode == 0 and made.stderr == ""
    manifest = json.loads((tmp_path / "s" / "manifest.json").read_text())
    assert "package" not in manifest["hierarchies"][0]["schedule"][0]
    used = tgp("coarsen", "-p", "number", "-o", tmp_path / "t", site=site)
    assert used.returncode == 2 and "faulty 3" in used.stderr and "Traceback" not in used.stderr
    assert not Path(tmp_path / "t").exists()


def test_help_does_not_read_entry_points(site):
    code = (
        "import sys; from tgp_cli.main import run; run(['--help']); "
        "print('importlib.metadata' in sys.modules, file=sys.stderr)"
    )
    assert tgp(site=site, code=code).stderr.strip() == "False"


def test_a_pooler_of_a_package_is_a_layer(site):
    code = """
from tgp.poolers import get_pooler
pooler = get_pooler("tinier", in_channels=3, k=2)
assert type(pooler).__module__ == "tiny_pooler" and pooler.batched
assert not get_pooler("tinier_u", in_channels=3, k=2).batched
assert get_pooler("tiny").__class__.__name__ == "LevelPooling"
assert get_pooler("random").__class__.__name__ == "LevelPooling", "a name of tgp"
assert get_pooler("mincut", in_channels=3, k=2).__class__.__name__ == "MinCutPooling"
assert get_pooler("topk", in_channels=3, ratio=0.5, k=2)
"""
    result = tgp(site=site, code=code)
    assert result.returncode == 0, result.stderr
