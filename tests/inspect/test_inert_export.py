"""Exports of a store with hostile names of fields, and exports that fail."""

import errno
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path, PurePosixPath, PureWindowsPath

import numpy as np
import pytest

from tgp.errors import InputError, StoreError
from tgp.inspect import export_store
from tgp.ragged import GraphTable
from tgp.store import StoreReader, StoreWriter
from tgp.testing.stores import build_store, halving, halving_spec, random_table, store_spec

NAMES = [
    "../../evil",
    "/etc/passwd",
    "C:\\evil",
    "..",
    "a/b",
    "a%2Fb",
    "file",
    "allow_pickle",
    "arr_0",
    "self",
    "_store",
    "_num_nodes",
    "node_ptr",
    "x_ptr",
    "x_ptr_ptr",
    "edge",
    "x.npy",
    "NUL",
    "-rf",
    ".hidden",
    "a\x1b[31m\nb\u202e",
    "a\\x1b[31m\\nb\\u202e",
    "long" * 100,
    "größe 图",
]


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A store in which field number ``i`` has ``i`` added to the features."""
    path = tmp_path_factory.mktemp("export") / "store"
    table = random_table(6, seed=2)
    x = table.fields["x"]
    extra = {name: replace(x, name=name, values=x.values + i) for i, name in enumerate(NAMES, start=1)}
    table = GraphTable(table.node_ptr, {**table.fields, **extra})
    writer = StoreWriter.open(path, store_spec(table, 1, hierarchies=[halving_spec()]))
    writer.write_graphs(0, table)
    writer.write_hierarchy(0, "halve", halving(table))
    writer.publish()
    return path


def is_inert(text):
    return text.isprintable() and not {"\u202e", "\u200b"} & set(text)


def test_archive_members_stay_in_their_folder(hostile, tmp_path):
    export_store(hostile, "npz", tmp_path / "out")
    members = zipfile.ZipFile(tmp_path / "out" / "graphs.npz").namelist()
    assert len(members) == len(set(members)), "no member hides another"
    for member in members:
        assert is_inert(member) and len(member) < 200
        assert PurePosixPath(member).parts == PureWindowsPath(member).parts == (member,)
        assert not member.startswith((".", "-")) and member.split(".")[0].upper() != "NUL"
    zipfile.ZipFile(tmp_path / "out" / "graphs.npz").extractall(tmp_path / "unpacked")
    assert len(list((tmp_path / "unpacked").iterdir())) == len(members)
    assert not (tmp_path / "evil.npy").exists()


def test_every_field_is_in_the_archive_once(hostile, tmp_path):
    from tgp.inspect.export import exported_names

    export_store(hostile, "npz", tmp_path / "out")
    reader = StoreReader(hostile)
    table = reader.gather_graphs(np.arange(reader.num_graphs))
    names = exported_names(table.fields, "npz")
    with np.load(tmp_path / "out" / "graphs.npz") as arrays:
        assert np.array_equal(arrays["node_ptr"], table.node_ptr)
        for key, field in table.fields.items():
            assert np.array_equal(arrays[names[key]], field.values), key
            offsets = "edge_ptr" if key == "edge_index" else f"{names[key]}_ptr"
            assert np.array_equal(arrays[offsets], field.ptr), key
    unchanged = {"x", "y", "edge_index", "train_mask", "file", "allow_pickle", "edge~2", "größe 图"}
    assert unchanged <= set(names.values())


@pytest.mark.slow
def test_pyg_attributes_do_not_replace_parts_of_data(hostile, tmp_path):
    torch = pytest.importorskip("torch")
    from torch_geometric.data import Data

    from tgp.inspect.export import exported_names

    export_store(hostile, "pyg", tmp_path / "out")
    values, slices, _ = torch.load(tmp_path / "out" / "graphs.pt", weights_only=True)
    assert all(is_inert(key) for key in values) and all(is_inert(key) for key in slices)
    data = Data.from_dict(values)
    names = exported_names(NAMES, "pyg")
    reader = StoreReader(hostile)
    table = reader.gather_graphs(np.arange(reader.num_graphs))
    for name in NAMES:
        assert np.array_equal(data[names[name]].numpy(), table.fields[name].values), name


def test_the_same_store_gives_the_same_archive(hostile, tmp_path):
    for name in ("a", "b"):
        export_store(hostile, "npz", tmp_path / name)
    assert (tmp_path / "a" / "graphs.npz").read_bytes() == (tmp_path / "b" / "graphs.npz").read_bytes()


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    path = tmp_path_factory.mktemp("export") / "plain"
    build_store(path, random_table(5, seed=1))
    return path


@pytest.mark.parametrize("to", ["npz", "graphml"])
@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "full"), KeyboardInterrupt(), SystemExit()], ids=repr
)
def test_a_failed_export_leaves_nothing(plain, tmp_path, monkeypatch, error, to):
    calls = []
    gather = StoreReader.gather_levels

    def fail(self, *args, **kwargs):
        calls.append(1)
        levels = gather(self, *args, **kwargs)
        return [*levels[:1], _Failing(error)] if to == "npz" else _raise(error)

    monkeypatch.setattr(StoreReader, "gather_levels", fail)
    with pytest.raises(StoreError if isinstance(error, OSError) else type(error)):
        export_store(plain, to, tmp_path / "new" / "out")
    assert calls and list(tmp_path.iterdir()) == []


class _Failing:
    """A level that cannot be read."""

    def __init__(self, error):
        self.error = error

    def __getattr__(self, name):
        raise self.error


def _raise(error):
    raise error


def test_a_failed_export_keeps_existing_files(plain, tmp_path, monkeypatch):
    out = tmp_path / "out"
    export_store(plain, "npz", out)
    before = {p.name: p.read_bytes() for p in out.iterdir()}
    gather = StoreReader.gather_levels
    monkeypatch.setattr(
        StoreReader, "gather_levels", lambda self, *a: [*gather(self, *a)[:1], _Failing(OSError(5, "broken"))]
    )
    with pytest.raises(StoreError, match="broken"):
        export_store(plain, "npz", out, graphs="0:2", force=True)
    assert {p.name: p.read_bytes() for p in out.iterdir()} == before


def test_an_existing_file_is_found_before_anything_is_written(plain, tmp_path):
    (tmp_path / "level-2.npz").write_bytes(b"mine")
    with pytest.raises(InputError, match="exists"):
        export_store(plain, "npz", tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["level-2.npz"]


def test_an_error_while_files_get_their_names(plain, tmp_path, monkeypatch):
    from tgp.inspect import output_file

    replaced = []

    def replace_twice(source, target):
        if len(replaced) == 2:
            raise OSError(errno.EIO, "broken")
        replaced.append(target)
        Path(source).rename(target)

    monkeypatch.setattr(output_file.os, "replace", replace_twice)
    with pytest.raises(StoreError):
        export_store(plain, "npz", tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_titles_of_plots_are_no_formulas(plain, tmp_path):
    pytest.importorskip("matplotlib")
    from tgp.inspect.plot import canvas, level_figure

    scenes = level_figure.graph_scenes(StoreReader(plain), 0, None)
    bad = [replace(scene, hierarchy="$x_{$\x1b\u202e") for scene in scenes]
    patch = pytest.MonkeyPatch()
    patch.setattr(level_figure, "graph_scenes", lambda *_: bad)
    try:
        figure = level_figure.hierarchy(plain, 0)
    finally:
        patch.undo()
    for suffix in (".svg", ".png", ".pdf"):
        path = canvas.save(figure, tmp_path / f"a{suffix}")
    drawn = (tmp_path / "a.svg").read_text()
    assert not [c for c in drawn if not c.isprintable() and c not in "\n\t"] and path.exists()


@pytest.mark.linux
@pytest.mark.parametrize(("what", "number"), [("report", 1), ("export", 1), ("export", 15)])
def test_a_signal_leaves_no_temporary_file(plain, tmp_path, what, number):
    """The signal arrives while the temporary file is open."""
    code = f"""
import os, signal, sys
import tgp.inspect.output_file as output_file
signal.signal({number}, signal.SIG_DFL)  # a suite that runs under nohup ignores SIGHUP
def send(*_):
    os.kill(os.getpid(), {number})
    signal.pause()
output_file.os.fsync = send
import numpy.lib.format
numpy.lib.format.write_array = lambda *_, **__: send()
from tgp_cli.main import main
main()
"""
    words = {"report": ["-o", "page.html"], "export": ["--to", "npz", "-o", "new/out"]}[what]
    done = subprocess.run(
        [sys.executable, "-c", code, what, str(plain), *words],
        cwd=tmp_path, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert list(tmp_path.iterdir()) == []
    assert done.returncode == 128 + number, done.stderr
    assert "Interrupted" in done.stderr


@pytest.mark.linux
def test_nohup_is_respected(plain, tmp_path):
    code = f"""
import os, signal, sys
signal.signal(signal.SIGHUP, signal.SIG_IGN)
import tgp.inspect.output_file as output_file
fsync = os.fsync
def send(file):
    os.kill(os.getpid(), 1)
    fsync(file)
output_file.os.fsync = send
from tgp_cli.main import main
sys.argv[1:] = ["report", {str(plain)!r}, "-o", "page.html"]
main()
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0 and [p.name for p in tmp_path.iterdir()] == ["page.html"], done.stderr
