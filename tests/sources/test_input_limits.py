"""Limits for input files: kinds of files, sizes, decompression, downloads."""

import io
import lzma
import os
import threading
import types

import numpy as np
import pytest

from tgp import input_limits
from tgp.errors import DatasetError
from tgp.input_limits import InputBudget, check_regular, input_budget, open_decompressed, physical_memory
from tgp.sources import download, open_source
from tgp.sources.local_files import open_local

EDGES = np.array([[0, 1], [1, 0]])


def test_default_limit_depends_on_the_files_and_the_memory(tmp_path, monkeypatch):
    (tmp_path / "a").write_bytes(bytes(1000))
    monkeypatch.setattr(input_limits, "MIN_LIMIT", 5000)
    budget = InputBudget()
    assert budget.limit == 5000
    for _ in range(2):  # a file counts once
        budget.open(tmp_path / "a").close()
    assert budget.limit == 100_000
    monkeypatch.setattr(input_limits, "physical_memory", lambda: 70_000)
    assert budget.limit == 70_000
    assert InputBudget(10**15).limit == 10**15


def test_memory_of_this_machine():
    assert 10**8 < physical_memory() <= 1 << 62


def test_memory_of_control_groups(tmp_path):
    """The smallest limit of the groups of the process and of the groups above them counts, in both versions."""
    limits = {
        "memory.max": "max",
        "a/memory.max": "7000",
        "a/b/memory.max": "9000",
        "other/memory.max": "1",
        "memory/memory.limit_in_bytes": str(2**63 - 4096),
        "memory/c/d/memory.limit_in_bytes": "6000",
    }
    for name, limit in limits.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{limit}\n")
    found = {
        text: input_limits._memory_of(text, tmp_path)
        for text in (
            "",
            "0::/",
            "0::/a/b",
            "0::/a/missing",
            "3:cpu,memory:/c/d",
            "2:cpu:/c/d",
            "0::/../other",
        )
    }
    assert found.pop("0::/a/b") == found.pop("0::/a/missing") == 7000
    assert found.pop("3:cpu,memory:/c/d") == 6000
    assert min(found.values()) > 10**8
    assert input_limits._memory_of("0::/a\n4:memory:/c/d\n", tmp_path) == 6000


def test_charges_add_up():
    budget = InputBudget(100)
    budget.charge(60, "f", "one")
    with pytest.raises(
        DatasetError, match=r"f: two needs too much memory: expected at most 100 bytes"
    ) as caught:
        budget.charge(50, "f", "two")
    assert "--max-input" in caught.value.hint
    budget.charge(40, "f", "three")


def test_inner_blocks_use_the_outer_budget():
    with input_budget(7) as outer:
        with input_budget() as inner:
            assert inner is outer
        with input_budget(9) as other:
            assert other.limit == 9
        seen = []
        thread = threading.Thread(target=lambda: seen.extend(b for b in [input_budget().__enter__()]))
        thread.start()
        thread.join()
        assert seen[0] is not outer
    with input_budget() as fresh:
        assert fresh.max_input is None


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs FIFOs")
def test_a_file_that_becomes_a_fifo_is_refused(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "f")
    with pytest.raises(DatasetError, match="expected a regular file, got a FIFO"):
        check_regular(tmp_path / "f")
    monkeypatch.setattr(input_limits, "check_regular", lambda path: None)  # replaced after the check
    with pytest.raises(DatasetError, match="expected a regular file, got a FIFO"):
        InputBudget().open(tmp_path / "f")


def test_several_xz_streams_and_padding(tmp_path):
    path = tmp_path / "g.txt.xz"
    path.write_bytes(lzma.compress(b"0 1\n") + bytes(8) + lzma.compress(b"1 2\n" * 50_000))
    with open_decompressed(path, InputBudget()) as file:
        assert len(file.readlines()) == 50_001


def test_an_honest_file_of_high_ratio_is_read(tmp_path):
    """Ten MB of zeros in ten kB: above the ratio, below the smallest limit."""
    np.savez_compressed(tmp_path / "g.npz", edge_index=EDGES, x=np.zeros((2, 600_000)))
    assert open_local(tmp_path / "g.npz").fields["x"].values.nbytes == 9_600_000


def test_limit_of_open_source(tmp_path):
    path = tmp_path / "g.npz"
    np.savez(path, edge_index=EDGES, x=np.ones((2, 100)))
    assert open_source(str(path), max_input=2000).table.num_nodes == 2
    with pytest.raises(DatasetError, match="at most 1 kB"):
        open_source(str(path), max_input=1000)


def test_the_total_of_a_folder_is_limited(tmp_path):
    for name in "abc":
        np.savez(tmp_path / f"{name}.npz", edge_index=EDGES, x=np.ones((2, 100)))
    assert open_source(str(tmp_path), max_input=6000).table.num_graphs == 3
    with pytest.raises(DatasetError, match=r"c\.npz"):
        open_source(str(tmp_path), max_input=4000)


def test_orders_of_arrays_and_bytes_are_kept(tmp_path):
    x = np.asfortranarray(np.arange(6, dtype=">f8").reshape(2, 3))
    np.savez(tmp_path / "g.npz", edge_index=EDGES, x=x, y=np.array(1))
    found = open_local(tmp_path / "g.npz")
    assert found.fields["x"].values.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_large_ids_keep_their_order(tmp_path):
    """Two ids that are equal as float64."""
    (tmp_path / "g.txt").write_text(f"{2**53} {2**53 + 1}\n{2**63 - 1} 0\n")
    assert open_local(tmp_path / "g.txt").num_nodes == 4


class Response(io.BytesIO):
    """Answer of a server."""

    def __init__(self, body, length=None):
        super().__init__(body)
        self.headers = {} if length is None else {"Content-Length": str(length)}


def test_downloads_are_limited(monkeypatch):
    assert download._read_body(Response(b"abc", 3), "d", InputBudget(3)) == b"abc"
    with pytest.raises(DatasetError, match="downloaded file"):
        download._read_body(Response(bytes(10_000)), "d", InputBudget(9_999))
    with pytest.raises(OSError, match="incomplete"):
        download._read_body(Response(b"abc", 4), "d", InputBudget(10))
    clock = iter([0.0, 100.0])
    monkeypatch.setattr(download, "time", types.SimpleNamespace(monotonic=lambda: next(clock)))
    with pytest.raises(TimeoutError, match="only 3 bytes"):
        download._read_body(Response(b"abc"), "d", InputBudget(10))
