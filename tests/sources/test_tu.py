"""TU text format, compared with known content and with the reader of PyG."""

import io
import shutil
import zipfile

import numpy as np
import pytest

from tgp.errors import DatasetError
from tgp.sources import tu
from tgp.sources.tu import download_tu, read_tu


def write(folder, **parts):
    for name, text in parts.items():
        (folder / f"T_{name}.txt").write_text(text)
    return folder


SMALL = {
    "A": "1, 2\n2, 1\n2, 2\n4, 3\n3, 4\n4, 3\n",
    "graph_indicator": "1\n1\n2\n2\n",
    "graph_labels": "-1\n1\n",
    "node_labels": "3\n5\n4\n3\n",
    "node_attributes": "0.5, 1\n1.5, 2\n2.5, 3\n3.5, 4\n",
    "edge_labels": "0\n0\n1\n1\n1\n1\n",
}


def test_read_tu(tmp_path):
    table = read_tu(write(tmp_path, **SMALL), "T", use_node_attr=True)
    table.validate()
    assert table.node_ptr.tolist() == [0, 2, 4]
    assert table.fields["edge_index"].values.tolist() == [
        [0, 1, 0, 1],
        [1, 0, 1, 0],
    ]  # loop gone, twin merged
    assert table.fields["edge_attr"].values.tolist() == [
        [1, 0],
        [1, 0],
        [0, 1],
        [0, 2],
    ]  # merged attributes add up
    assert table.fields["x"].values.tolist()[0] == [0.5, 1, 1, 0, 0]
    assert table.fields["y"].values.tolist() == [0, 1]
    assert read_tu(tmp_path, "T").fields["x"].values.tolist() == [[1, 0, 0], [0, 0, 1], [0, 1, 0], [1, 0, 0]]


def test_graphs_without_features_have_num_nodes(tmp_path):
    write(tmp_path, A="1, 2\n", graph_indicator="1\n1\n1\n2\n", graph_attributes="0.25\n0.5\n")
    table = read_tu(tmp_path, "T")
    assert table.fields["num_nodes"].values.tolist() == [3, 1]
    assert table.fields["y"].values.dtype == np.float32


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"A": "1, 9\n"}, r"ids in \[1, 4\]"),
        ({"A": "1, 3\n"}, "between two graphs"),
        ({"A": "1, 2, 3\n"}, "2 columns"),
        ({"A": "one, two\n"}, "cannot be read"),
        ({"graph_indicator": "2\n1\n1\n1\n"}, "ascending"),
        ({"node_labels": "1\n2\n"}, "4 lines"),
        ({"graph_labels": "1\n2\n3\n"}, "2 lines"),
    ],
)
def test_invalid_files_are_named(tmp_path, change, message):
    with pytest.raises(DatasetError, match=message) as caught:
        read_tu(write(tmp_path, **(SMALL | change)), "T")
    assert "T_" in str(caught.value)


@pytest.mark.needs_data
@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"use_node_attr": True}])
@pytest.mark.parametrize("name", ["MUTAG", "ENZYMES", "IMDB-BINARY"])
def test_read_tu_equals_the_reader_of_pyg(data_root, tmp_path, name, options):
    from torch_geometric.datasets import TUDataset

    from tgp.data.convert import graphs_to_table
    from tgp.store import data_digest

    raw = data_root / "TUDataset" / name / "raw"
    shutil.copytree(raw, tmp_path / name / "raw")
    theirs = graphs_to_table(TUDataset(str(tmp_path), name, **options))
    assert data_digest(read_tu(raw, name, **options)) == data_digest(theirs)


def test_download_extracts_only_text_files_of_the_dataset(tmp_path, monkeypatch):
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        for name, text in SMALL.items():
            file.writestr(f"T/T_{name}.txt", text)
        file.writestr("../../evil.txt", "no")
        file.writestr("T/other.txt", "no")
    monkeypatch.setattr(tu, "fetch", lambda url, label, expected: archive.getvalue())
    raw = tmp_path / "T" / "raw"
    download_tu("T", raw)
    assert sorted(p.name for p in tmp_path.rglob("*") if p.is_file()) == sorted(
        f"T_{name}.txt" for name in SMALL
    )
    assert read_tu(raw, "T").num_graphs == 2


def test_a_download_that_is_not_an_archive_is_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(tu, "fetch", lambda url, label, expected: b"<html>not here</html>")
    with pytest.raises(DatasetError, match="no archive"):
        download_tu("T", tmp_path)
