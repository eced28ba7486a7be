"""The bytes of a store change only with the revision of the engine."""

import json
import platform
import sys

import pytest

from tests.build import reference_stores
from tests.build.reference_stores import (
    CONTENT,
    build_digests,
    compare,
    known_digests,
    read_recorded,
    record,
    schedules,
)
from tgp.engine.methods import METHODS
from tgp.engine.revision import ENGINE_REVISION
from tgp.engine.schedule import parse_schedule
from tgp.kernels import matching

same_platform = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64",
    reason="the digests were recorded on Linux with an x86-64 processor",
)
DIGESTS = {
    "ba/graclus": {"content": "a" * 64, "hdf5 2.0.0": "1" * 64},
    "ba/graphs": {"content": "b" * 64, "hdf5 2.0.0": "2" * 64},
}
OTHER_CONTENT = {**DIGESTS, "ba/graclus": {"content": "c" * 64, "hdf5 1.14.2": "3" * 64}}
OTHER_LAYOUT = {**DIGESTS, "ba/graclus": {"content": "a" * 64, "hdf5 2.0.0": "3" * 64}}
OTHER_LIBRARY = {**DIGESTS, "ba/graclus": {"content": "a" * 64, "hdf5 1.14.2": "3" * 64}}
NEW_METHOD = {"ba/new": {"content": "d" * 64, "hdf5 2.0.0": "4" * 64}}


@same_platform
def test_reference_stores_have_the_recorded_bytes(tmp_path):
    problem = compare(build_digests(tmp_path), read_recorded(), ENGINE_REVISION)
    assert problem is None, problem


def test_every_method_and_dataset_has_reference_stores():
    known = known_digests(read_recorded(), ENGINE_REVISION)
    methods = {name for name in METHODS if METHODS.entry(name).target.startswith("tgp.engine.methods.")}
    assert methods <= set(schedules())
    datasets = {name.split("/")[0] for name in known}
    assert set(known) == {f"{data}/{part}" for data in datasets for part in ("graphs", *schedules(data))}
    assert len({digests[CONTENT] for digests in known.values()}) == len(known)  # no file is compared twice


@pytest.mark.parametrize("found", [OTHER_CONTENT, OTHER_LAYOUT], ids=["content", "layout"])
def test_changed_bytes_ask_for_a_new_revision(found):
    problem = compare(found, {"1": DIGESTS}, 1)
    for word in ("ba/graclus", "ENGINE_REVISION is still 1", "revision.py", "--write"):
        assert word in problem
    assert "ba/graphs" not in problem


def test_equal_bytes_are_accepted():
    assert compare(DIGESTS, {"1": DIGESTS}, 1) is None
    assert (
        compare({"ba/graclus": DIGESTS["ba/graclus"]}, {"1": DIGESTS}, 1) is None
    )  # some of the hierarchies
    assert compare(OTHER_LIBRARY, {"1": DIGESTS}, 1) is None  # the same content in another version of HDF5


def test_missing_digests_are_reported():
    assert compare(DIGESTS, {"1": DIGESTS}, 2) is None  # nothing changed in revision 2
    assert "ba/graclus" in compare(DIGESTS, {}, 1)
    assert "ba/new" in compare({**DIGESTS, **NEW_METHOD}, {"1": DIGESTS}, 1)


def test_recorded_digests_of_a_revision_are_not_overwritten(tmp_path):
    path = tmp_path / "digests.json"
    record(DIGESTS, 1, path)
    for found in (OTHER_CONTENT, OTHER_LAYOUT):
        with pytest.raises(SystemExit, match="Increase ENGINE_REVISION"):
            record(found, 1, path)
    assert json.loads(path.read_text()) == {"1": DIGESTS}
    record(NEW_METHOD, 1, path)
    record(OTHER_CONTENT, 2, path)
    assert json.loads(path.read_text()) == {
        "1": {**DIGESTS, **NEW_METHOD},
        "2": {"ba/graclus": OTHER_CONTENT["ba/graclus"]},
    }
    record(OTHER_LIBRARY, 1, path)
    assert sorted(json.loads(path.read_text())["1"]["ba/graclus"]) == ["content", "hdf5 1.14.2", "hdf5 2.0.0"]


@same_platform
def test_a_changed_kernel_is_noticed(tmp_path, monkeypatch):
    """Sabotage: another seed in one method changes its files and no others."""
    plain = matching.random_partition
    monkeypatch.setattr(matching, "random_partition", lambda *args: plain(*args[:2], args[2] + 1, args[3]))
    found = build_digests(tmp_path, {"random", "graclus"})
    problem = compare(found, read_recorded(), ENGINE_REVISION)
    assert "ba/random" in problem and "graclus" not in problem.split("\n")[0]


def test_methods_with_changed_stores_have_the_revision_that_changed_them():
    for revision, digests in read_recorded().items():
        for name in digests:
            part = name.split("/")[1]
            assert part == "graphs" or parse_schedule(schedules()[part]).revision >= int(revision), name


def test_the_file_of_digests_is_sorted():
    text = reference_stores.RECORDED.read_text()
    assert text == json.dumps(json.loads(text), indent=1, sort_keys=True) + "\n"
