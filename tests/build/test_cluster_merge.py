"""``tgp status`` and ``tgp merge`` name files of another engine instead of calling them missing."""

import pytest

from tests.build.test_cluster_jobs import config, write_mixed_store
from tgp.build import coarsen_dataset, merge_store, store_status
from tgp.errors import StoreMismatchError
from tgp_cli.main import run as tgp


@pytest.fixture
def mixed(tmp_path, monkeypatch):
    """Return a store in which one of two jobs was run by a version without a revision of the engine."""
    return write_mixed_store(tmp_path, monkeypatch)


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
