"""Malicious manifests are refused."""

import json
import os

import pytest

from tests.reference.refusals import bounded
from tgp.errors import StoreDamagedError, StoreVersionError
from tgp.store import StoreReader, verify_store
from tgp.store.format.strict_json import seal
from tgp.testing.stores import forge_manifest

GRAPHS = "shard-00000.graphs.h5"


@pytest.mark.parametrize(
    "name", ["../escape.h5", "/etc/passwd", "a/b.h5", "shard-00001.graphs.h5", "pipe:id", "..", ""]
)
def test_file_names_outside_the_store(fast_store, name):
    def edit(values):
        values["shards"][0]["file"] = name

    forge_manifest(fast_store, edit)
    with pytest.raises(StoreDamagedError, match="'file' must be"):
        StoreReader(fast_store)
    assert [f.field for f in verify_store(fast_store)] == ["file"]


@pytest.mark.parametrize("name", [GRAPHS, "manifest.json"])
def test_symbolic_links(fast_store, tmp_path, name):
    target = tmp_path / "elsewhere"
    os.rename(fast_store / name, target)
    os.symlink(target, fast_store / name)
    with pytest.raises(StoreDamagedError, match="must be a plain file"):
        StoreReader(fast_store)


@pytest.mark.parametrize(
    "key, value",
    [
        ("num_graphs", -1),
        ("num_graphs", 2**70),
        ("num_graphs", 41),
        ("num_graphs", True),
        ("bounds", [0, 40, 20]),
        ("bounds", "all"),
        ("bounds", [0, 20, 40, 40]),
        ("profile", "other"),
        ("fields", [{}]),
        ("fields", 3),
        ("hierarchies", {}),
        ("hierarchies", [{"name": "../x"}]),
        ("shards", []),
        ("data_digest", "abc"),
        ("fingerprint", "0" * 64),
        ("dataset", []),
    ],
)
def test_invalid_values(fast_store, key, value):
    forge_manifest(fast_store, lambda values: values.update({key: value}))
    with pytest.raises(StoreDamagedError, match=r"manifest\.json") as caught:
        StoreReader(fast_store)
    assert caught.value.item


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b'{"format": NaN}',
        b'{"a": 1, "a": 2}',
        b'{"a": ' + b"9" * 10_000 + b"}",
        b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"a": ' + b"[" * 40 + b"]" * 40 + b"}",
        b'{"format": "other", "version": 1}',
    ],
    ids=[
        "empty",
        "cut",
        "list",
        "null",
        "binary",
        "nan",
        "duplicate key",
        "digits",
        "very deep",
        "deep",
        "foreign",
    ],
)
def test_a_manifest_that_is_not_valid_json(fast_store, data):
    (fast_store / "manifest.json").write_bytes(data)
    with bounded(), pytest.raises(StoreDamagedError, match=r"manifest\.json"):
        StoreReader(fast_store)
    assert verify_store(fast_store)


def test_a_giant_manifest_is_not_read(fast_store):
    with open(fast_store / "manifest.json", "r+b") as file:
        file.truncate(65 << 20)
    with bounded(), pytest.raises(StoreDamagedError, match="at most"):
        StoreReader(fast_store)


def test_an_altered_manifest(fast_store):
    path = fast_store / "manifest.json"
    path.write_bytes(path.read_bytes().replace(b'"random"', b'"rundom"'))
    with pytest.raises(StoreDamagedError, match="does not match its checksum"):
        StoreReader(fast_store)


@pytest.mark.parametrize("version", [2, 99])
def test_other_versions(fast_store, version):
    values = json.loads((fast_store / "manifest.json").read_bytes())
    del values["checksum"]
    (fast_store / "manifest.json").write_bytes(seal(values | {"version": version}))
    for action in (StoreReader, verify_store):
        with pytest.raises(
            StoreVersionError, match=f"version {version}, this version of tgp reads version 1"
        ):
            action(fast_store)
