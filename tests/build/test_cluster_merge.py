"""``tgp status`` and ``tgp merge`` name files of another engine instead of calling them missing."""

import shutil

import pytest

from tests.build.test_cluster_jobs import config, old_hierarchy
from tgp.build import coarsen_dataset, merge_store, prepare, store_status
from tgp.errors import StoreMismatchError
from tgp_cli.main import run as tgp


@pytest.fixture
def mixed(tmp_path, monkeypatch):
    """Return a store in which one of two jobs was run by a version without a revision of the engine."""
    coarsen_dataset(config(tmp_path / "new", shard=(0, 2)))
    monkeypatch.setattr(prepare, "HierarchySpec", old_hierarchy)
    coarsen_dataset(config(tmp_path / "old", shard=(1, 2)))
    monkeypatch.undo()
    for path in (tmp_path / "old").rglob("shard-*"):
        shutil.copy(path, tmp_path / "new" / path.relative_to(tmp_path / "old"))
    return tmp_path / "new"


def test_status_and_merge_name_files_of_another_engine(mixed, capsys):
    """C1: such files were listed as missing, without a reason."""
    status = store_status(mixed)
    assert status.foreign == {"graclus-x2": status.missing} and not status.complete
    with pytest.raises(StoreMismatchError, match="another engine revision"):
        merge_store(mixed)
    assert tgp(["merge", str(mixed)]) == 2
    assert "another engine revision" in capsys.readouterr().err
    assert tgp(["status", str(mixed)]) == 3
    assert "written by another engine revision" in capsys.readouterr().err
    assert coarsen_dataset(config(mixed)).status == "complete"
    assert store_status(mixed).foreign == {}
