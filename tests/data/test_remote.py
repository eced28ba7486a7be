"""Stores at a URL: in memory, over HTTP, cached, damaged."""

import functools
import http.server
import os
import pickle
import shutil
import subprocess
import sys
import threading

import pytest

from tgp.data import PoolDataLoader, PooledDataset
from tgp.errors import StoreDamagedError, StoreError, StoreFullError, StoreMissingError
from tgp.store import StoreReader, verify_store
from tgp.store.io.files import LocalFiles
from tgp.store.io.remote import RemoteFiles, TransferLimits
from tgp.store.locations import open_files

fsspec = pytest.importorskip("fsspec")


@pytest.fixture
def graphs(make_graphs):
    return make_graphs(20)


@pytest.fixture
def store(make_store, graphs):
    return make_store(graphs, "graclus*2", units=3)


@pytest.fixture
def memory(store):
    system = fsspec.filesystem("memory")
    system.put(str(store), "/bucket/toy", recursive=True)
    yield "memory://bucket/toy"
    system.rm("/bucket", recursive=True)


class Quiet(http.server.SimpleHTTPRequestHandler):
    requests: list[str] = []

    def log_message(self, *args):
        pass

    def do_GET(self):
        self.requests.append(self.path)
        super().do_GET()


@pytest.fixture
def http_server(store):
    handler = functools.partial(Quiet, directory=str(store.parent))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    Quiet.requests.clear()
    yield f"http://127.0.0.1:{server.server_address[1]}/{store.name}"
    server.shutdown()
    thread.join()


def test_same_graphs_from_memory(memory, store, same, tmp_path):
    remote = PooledDataset(RemoteFiles(memory, tmp_path / "cache"))
    for ours, other in zip(remote, PooledDataset(store), strict=True):
        same(ours, other)


def test_same_batches_over_http(http_server, store, same, tmp_path):
    remote = PooledDataset(RemoteFiles(http_server, tmp_path / "cache"))
    local = PooledDataset(store)
    same(remote.get_batch([3, 19, 7]), local.get_batch([3, 19, 7]))
    fetched = [p for p in Quiet.requests if p.endswith(".h5")]
    assert len(fetched) == len(set(fetched)) == 6  # three shards, graphs and levels, once each
    again = PooledDataset(RemoteFiles(http_server, tmp_path / "cache"))
    same(again.get_batch([3, 19, 7]), local.get_batch([3, 19, 7]))
    assert [p for p in Quiet.requests if p.endswith(".h5")] == fetched


def test_only_needed_shards_are_fetched(memory, tmp_path):
    dataset = PooledDataset(RemoteFiles(memory, tmp_path))
    assert not list(tmp_path.rglob("*.h5"))
    dataset[0]
    assert sorted(p.name for p in tmp_path.rglob("*.h5")) == ["shard-00000.graphs.h5", "shard-00000.main.h5"]


def test_default_cache_and_text(memory, monkeypatch, tmp_path):
    monkeypatch.setenv("TGP_CACHE", str(tmp_path / "here"))
    assert len(PooledDataset(memory)[0].pooled_data) == 2
    assert list((tmp_path / "here").rglob("*.h5"))
    assert isinstance(open_files("plain/folder"), LocalFiles)


def test_workers_and_pickles(memory, store, same, tmp_path):
    dataset = PooledDataset(RemoteFiles(memory, tmp_path))
    dataset[0]
    twin = pickle.loads(pickle.dumps(dataset))
    same(twin[5], dataset[5])
    batches = PoolDataLoader(twin, batch_size=6, num_workers=2)
    for ours, other in zip(batches, PoolDataLoader(PooledDataset(store), batch_size=6), strict=True):
        same(ours, other)


def test_a_rebuilt_store_is_not_mixed_with_the_old_copy(memory, make_store, make_graphs, same, tmp_path):
    before = PooledDataset(RemoteFiles(memory, tmp_path))
    before[0]
    other = make_store(make_graphs(20, seed=9), "graclus*2", units=3)
    system = fsspec.filesystem("memory")
    system.rm("/bucket", recursive=True)
    system.put(str(other), "/bucket/toy", recursive=True)
    same(PooledDataset(RemoteFiles(memory, tmp_path))[0], PooledDataset(other)[0])


def test_missing_stores_are_reported(memory, tmp_path):
    with pytest.raises(StoreMissingError, match="memory://bucket/nothing"):
        StoreReader(RemoteFiles("memory://bucket/nothing", tmp_path))
    with pytest.raises(StoreError, match="nonsense"):
        StoreReader(RemoteFiles("nonsense://x/y", tmp_path))
    fsspec.filesystem("memory").rm("/bucket/toy/shard-00001.graphs.h5")
    reader = StoreReader(RemoteFiles(memory, tmp_path))  # the files are not listed
    with pytest.raises(StoreMissingError, match=r"memory://bucket/toy/shard-00001\.graphs\.h5"):
        reader.gather_graphs([10])
    with pytest.raises(StoreMissingError, match=r"is not listed in manifest\.json"):
        reader.files.open("other.h5")
    (finding,) = verify_store(reader.files)
    assert finding.shard == "shard-00001.graphs.h5" and "does not exist" in finding.message


def test_incomplete_files_are_refused(memory, tmp_path):
    system = fsspec.filesystem("memory")
    for wrong in (b"torn", bytes(1 << 20)):
        system.pipe("/bucket/toy/shard-00001.graphs.h5", wrong)
        with pytest.raises(StoreDamagedError, match=r"shard-00001.*expected"):
            StoreReader(RemoteFiles(memory, tmp_path)).gather_graphs([10])
    system.pipe("/bucket/toy/manifest.json", b" " * (1 << 20))
    with pytest.raises(StoreError, match="manifest"):
        StoreReader(RemoteFiles(memory, tmp_path))


def test_a_broken_connection_is_reported(memory, tmp_path, monkeypatch):
    from fsspec.implementations.memory import MemoryFileSystem

    limits = TransferLimits(retries=2, backoff=0.01)
    dataset = PooledDataset(RemoteFiles(memory, tmp_path, limits=limits))
    calls = []
    real = MemoryFileSystem._open

    def fail(*args, **kwargs):
        calls.append(args)
        if len(calls) <= broken:
            raise ConnectionResetError("connection reset")
        return real(*args, **kwargs)

    monkeypatch.setattr(MemoryFileSystem, "_open", fail)
    broken = 3
    with pytest.raises(StoreError, match=r"shard-00000.*connection reset \(tried 3 times\)"):
        dataset[0]
    assert not [p for p in tmp_path.rglob("*") if p.is_file()]
    calls.clear()
    broken = 2
    assert len(dataset[0].pooled_data) == 2


@pytest.mark.parametrize("error", [ValueError("bad \x1b[31m range"), KeyError("x"), RuntimeError()])
def test_any_error_of_a_file_system_is_converted(memory, tmp_path, monkeypatch, error):
    from fsspec.implementations.memory import MemoryFileSystem

    def fail(*args, **kwargs):
        raise error

    monkeypatch.setattr(MemoryFileSystem, "_open", fail)
    with pytest.raises(StoreError, match=r"memory://bucket/toy/manifest.json cannot be read") as caught:
        StoreReader(RemoteFiles(memory, tmp_path))
    assert str(caught.value).isprintable()


def test_errors_of_file_systems_do_not_contain_passwords(tmp_path, monkeypatch):
    from fsspec.implementations.memory import MemoryFileSystem

    def fail(self, path, *args, **kwargs):
        raise OSError("memory://user:secret@bucket/toy: refused")

    monkeypatch.setattr(MemoryFileSystem, "_open", fail)
    files = RemoteFiles("memory://user:secret@bucket/toy", tmp_path)
    with pytest.raises(StoreError, match=r"memory://\*\*\*@bucket/toy/manifest.json") as caught:
        StoreReader(files)
    assert "secret" not in str(caught.value) and caught.value.__cause__ is None
    assert "secret" not in files.location


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_as_a_file_is_refused(store, tmp_path):
    """Opening a named pipe would wait for ever."""
    (store / "manifest.json").unlink()
    os.mkfifo(store / "manifest.json")
    with pytest.raises(StoreDamagedError, match="plain file"):
        StoreReader(RemoteFiles(f"file://{store}", tmp_path))


def test_a_full_cache_is_reported(memory, tmp_path, monkeypatch):
    import errno

    dataset = PooledDataset(RemoteFiles(memory, tmp_path))

    def fail(descriptor, data):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("tgp.store.io.remote.os.write", fail)
    with pytest.raises(StoreFullError, match="cache"):
        dataset[0]
    assert not [p for p in tmp_path.rglob("*") if p.is_file()]


def test_a_cache_that_was_deleted_is_filled_again(memory, tmp_path, same):
    files = RemoteFiles(memory, tmp_path / "cache")
    before = PooledDataset(files)[0]
    shutil.rmtree(tmp_path / "cache")
    same(PooledDataset(RemoteFiles(memory, tmp_path / "cache"))[0], before)


def test_a_server_that_does_not_answer_is_reported(tmp_path):
    limits = TransferLimits(retries=1, backoff=0.01)
    with pytest.raises(StoreError, match=r"127\.0\.0\.1.*tried 2 times"):
        StoreReader(RemoteFiles("http://127.0.0.1:9/store", tmp_path, limits=limits))


def test_several_readers_fill_one_cache_at_once(memory, store, same, tmp_path):
    """Every thread gets complete files, and no temporary file is left."""
    expected = PooledDataset(store).get_batch(list(range(20)))
    start = threading.Barrier(4)
    found = []

    def read():
        dataset = PooledDataset(RemoteFiles(memory, tmp_path))
        start.wait(600)
        for _ in range(3):  # again, after others may have put their copy in the place of ours
            found.append(dataset.get_batch(list(range(20))))

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 12
    for batch in found:
        same(batch, expected)
    assert len([p for p in tmp_path.rglob("*") if p.is_file()]) == 6


READ = """
import sys
from tgp.store import StoreReader
from tgp.store.io.remote import RemoteFiles
reader = StoreReader(RemoteFiles(sys.argv[1], sys.argv[2]))
print(reader.gather_graphs(range(20)).num_nodes, reader.gather_levels(range(20), "main")[1].edge_index.sum())
"""


def test_two_processes_fill_one_cache_at_once(http_server, store, tmp_path):
    command = [sys.executable, "-c", READ, http_server, str(tmp_path)]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    printed = [process.communicate(timeout=600)[0].split() for process in both]
    reader = StoreReader(store)
    edges = reader.gather_levels(range(20), "main")[1].edge_index.sum()
    assert printed == [[str(reader.gather_graphs(range(20)).num_nodes), str(edges)]] * 2
    assert len([p for p in tmp_path.rglob("*") if p.is_file()]) == 6


@pytest.mark.parametrize("check", ["cheap", "full"])
def test_a_remote_file_that_changed_is_refused_and_fetched_again(memory, store, tmp_path, check):
    system = fsspec.filesystem("memory")
    name = "shard-00001.graphs.h5"
    sound = (store / name).read_bytes()
    middle = len(sound) // 2 if check == "full" else 0
    bad = sound[:middle] + bytes([sound[middle] ^ 1]) + sound[middle + 1 :]
    reader = StoreReader(RemoteFiles(memory, tmp_path), check=check)
    system.pipe(f"/bucket/toy/{name}", bad)
    with pytest.raises(StoreDamagedError, match="shard-00001"):
        reader.gather_graphs([10])
    assert not list(tmp_path.rglob(name))
    system.pipe(f"/bucket/toy/{name}", sound)  # the upload is finished
    assert reader.gather_graphs([10]).num_graphs == 1
    assert StoreReader(RemoteFiles(memory, tmp_path)).gather_graphs([10]).num_graphs == 1


def test_an_incomplete_copy_is_fetched_again(memory, tmp_path):
    system = fsspec.filesystem("memory")
    name = "shard-00001.graphs.h5"
    sound = system.cat(f"/bucket/toy/{name}")
    reader = StoreReader(RemoteFiles(memory, tmp_path))
    system.pipe(f"/bucket/toy/{name}", sound[:-1])
    with pytest.raises(StoreDamagedError, match="shard-00001"):
        reader.gather_graphs([10])
    system.pipe(f"/bucket/toy/{name}", sound)
    assert StoreReader(RemoteFiles(memory, tmp_path)).gather_graphs([10]).num_graphs == 1
