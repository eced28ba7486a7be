"""Datasets that are opened through classes and files of PyG: names, raw files, splits, code in files."""

import importlib.machinery
import os
import pickle
import socket
import sys
import types

import numpy as np
import pytest
import torch
from scipy.sparse import coo_matrix
from torch_geometric.data import Data, InMemoryDataset

from tgp.errors import DatasetError, MissingPackageError, UnknownNameError
from tgp.registry import load
from tgp.sources import download as _download
from tgp.sources import open_source
from tgp.sources.families import FAMILIES
from tgp.sources.names import KnownDataset, resolve
from tgp.sources.pyg import load_processed

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:Weights only load failed")

CYCLE = torch.tensor([[0, 1, 2, 1, 2, 0], [1, 2, 0, 0, 1, 2]])


class Hostile:
    """Object that sets an environment variable when it is unpickled."""

    def __reduce__(self):
        return os.putenv, ("TGP_CODE_RAN", "1")


def opened(spec, root):
    return open_source(spec, root=root).table


def raw(root, family, folder):
    target = root / family / folder
    target.mkdir(parents=True)
    return target


@pytest.mark.parametrize("family", ["GNNBenchmarkDataset", "LRGBDataset", "MoleculeNet"])
def test_names_are_those_of_pyg(family):
    entry = FAMILIES[family]
    ours = [name if family == "GNNBenchmarkDataset" else name.lower() for name in entry.members]
    assert sorted(ours) == sorted(load(entry.target).names)


@pytest.mark.parametrize("family", ["GNNBenchmarkDataset", "LRGBDataset", "MoleculeNet", "ZINC"])
def test_raw_files_are_those_of_pyg(family, tmp_path):
    entry = FAMILIES[family]
    cls = load(entry.target)
    for member in entry.members:
        known = KnownDataset(entry, member)
        probe = cls.__new__(cls)
        probe.root = str(tmp_path)
        probe.name = member if family == "GNNBenchmarkDataset" else member.lower()
        names = probe.raw_file_names
        assert set(known.raw_files()) == {names} if isinstance(names, str) else set(names)
        assert str(tmp_path / known.raw_folder()) == probe.raw_dir


def test_classes_accept_our_arguments():
    import inspect

    for family in FAMILIES.values():
        if family.needs in ("ogb", "pygsp"):
            continue
        accepted = inspect.signature(load(family.target)).parameters
        assert "root" in accepted and ("name" in accepted) == family.named, family.name
        assert not family.splits or "split" in accepted


def write_benchmark(root):
    target = raw(root, "GNNBenchmarkDataset", "PATTERN/raw")
    parts = [
        [
            {"x": torch.full((3, 2), float(10 * part + i)), "edge_index": CYCLE, "y": torch.arange(3)}
            for i in range(count)
        ]
        for part, count in enumerate((3, 1, 2))
    ]
    torch.save(parts, target / "PATTERN_v2.pt")


def test_splits_are_joined_with_a_field_split(tmp_path):
    write_benchmark(tmp_path)
    table = opened("PATTERN", tmp_path)
    assert table.fields["split"].values.tolist() == [0, 0, 0, 1, 2, 2]
    assert table.fields["x"].values[::3, 0].tolist() == [0, 1, 2, 10, 20, 21]
    assert table.validate().num_nodes == 18
    one = opened("PATTERN:split=test", tmp_path)
    assert one.num_graphs == 2 and "split" not in one.fields
    assert one.fields["x"].values[::3, 0].tolist() == [20, 21]
    with pytest.raises(DatasetError, match="'dev'"):
        opened("PATTERN:split=dev", tmp_path)
    with pytest.raises(UnknownNameError, match="split"):
        opened("PATTERN:splitt=val", tmp_path)


def test_csl_has_no_splits(tmp_path):
    target = raw(tmp_path, "GNNBenchmarkDataset", "CSL/raw")
    ring = coo_matrix((np.ones(6), CYCLE.numpy()), shape=(3, 3))
    (target / "graphs_Kary_Deterministic_Graphs.pkl").write_bytes(pickle.dumps([ring, ring]))
    torch.save(torch.tensor([0, 1]), target / "y_Kary_Deterministic_Graphs.pt")
    table = opened("CSL", tmp_path)
    assert table.num_graphs == 2 and "split" not in table.fields
    assert table.fields["y"].values.tolist() == [0, 1]


def molecule(atoms):
    bonds = torch.zeros(atoms, atoms)
    bonds[0, 1] = bonds[1, 0] = 2
    return {
        "atom_type": torch.arange(atoms),
        "bond_type": bonds,
        "logP_SA_cycle_normalized": torch.tensor([float(atoms)]),
    }


def write_zinc(root, last):
    target = raw(root, "ZINC", "raw")
    for split, molecules in zip(
        ("train", "val", "test"), ([molecule(2), molecule(3)], [molecule(4)], last), strict=True
    ):
        (target / f"{split}.pickle").write_bytes(pickle.dumps(molecules))
        (target / f"{split}.index").write_text("0\n")


def test_zinc_is_read_without_running_its_pickles(tmp_path):
    write_zinc(tmp_path, [molecule(5)])
    table = opened("ZINC", tmp_path)
    assert table.fields["y"].values.ravel().tolist() == [2, 3, 4, 5]
    assert table.fields["split"].values.tolist() == [0, 0, 1, 2]
    assert table.fields["edge_attr"].values.tolist() == [2] * 8
    assert opened("ZINC:subset=true", tmp_path).num_graphs == 3


def test_code_in_a_pickle_is_refused(tmp_path):
    write_zinc(tmp_path, [Hostile()])
    with pytest.raises(DatasetError, match=r"contains posix\.putenv"):
        opened("ZINC", tmp_path)


def test_code_in_a_torch_file_is_refused(tmp_path):
    target = raw(tmp_path, "GNNBenchmarkDataset", "CLUSTER/raw")
    torch.save([Hostile()], target / "CLUSTER_v2.pt")
    with pytest.raises(DatasetError, match="could run code"):
        opened("CLUSTER", tmp_path)


def test_readers_are_restored_after_an_error(tmp_path):
    before = pickle.load, torch.load
    write_zinc(tmp_path, [Hostile()])
    with pytest.raises(DatasetError):
        opened("ZINC", tmp_path)
    assert (pickle.load, torch.load) == before


def test_long_range_graphs(tmp_path):
    """Raw files of superpixels are pickled tuples, those of peptides are torch files."""
    target = raw(tmp_path, "LRGBDataset", "pascalvoc-sp/raw")
    graph = (torch.ones(3, 14), torch.ones(6, 2), CYCLE, [4, 5, 6])
    for split in ("train", "val", "test"):
        (target / f"{split}.pickle").write_bytes(pickle.dumps([graph]))
    table = opened("PascalVOC-SP", tmp_path)
    assert table.num_graphs == 3 and table.fields["split"].values.tolist() == [0, 1, 2]
    target = raw(tmp_path, "LRGBDataset", "peptides-func/raw")
    graph = (torch.ones(3, 9), torch.ones(6, 3), CYCLE, torch.zeros(1, 10))
    for split in ("train", "val", "test"):
        torch.save([graph, graph], target / f"{split}.pt")
    assert opened("Peptides-func", tmp_path).num_graphs == 6
    assert opened("peptides-func:split=val", tmp_path).num_graphs == 2


def test_a_broken_file_is_named(tmp_path):
    target = raw(tmp_path, "GNNBenchmarkDataset", "TSP/raw")
    (target / "TSP_v2.pt").write_bytes(b"not a torch file")
    with pytest.raises(DatasetError, match="GNNBenchmarkDataset/TSP") as caught:
        opened("TSP", tmp_path)
    assert str(tmp_path) in str(caught.value)


@pytest.mark.parametrize(
    "spec",
    ["PATTERN", "CSL", "ZINC", "COCO-SP", "PCQM-Contact", "Cora", "Photo", "Physics", "Questions", "MUTAG"],
)
def test_without_network_the_folder_is_named(spec, tmp_path, monkeypatch):
    def refuse(*args, **kwargs):
        raise OSError("no network here")

    monkeypatch.setattr(socket, "create_connection", refuse)
    monkeypatch.setattr(_download.urllib.request, "getproxies", dict)
    known = resolve(spec)
    with pytest.raises(DatasetError, match="cannot be downloaded") as caught:
        opened(spec, tmp_path)
    assert str(tmp_path / known.family.name / known.raw_folder()) in str(caught.value)
    assert "--root" in caught.value.hint


def install_ogb(monkeypatch, question=None):
    class Stub(InMemoryDataset):
        def __init__(self, name, root):
            if question:
                input(question)
            super().__init__(root)
            nodes = name.startswith("ogbn")
            graphs = [Data(x=torch.ones(3, 1), edge_index=CYCLE, y=torch.zeros(3, 1))] * (1 if nodes else 4)
            self.data, self.slices = self.collate(graphs)

        def get_idx_split(self):
            return {"train": torch.tensor([0]), "valid": torch.tensor([2]), "test": torch.tensor([1])}

    for name, attribute in (
        ("graphproppred", "PygGraphPropPredDataset"),
        ("nodeproppred", "PygNodePropPredDataset"),
    ):
        module = types.ModuleType(f"ogb.{name}")
        setattr(module, attribute, Stub)
        monkeypatch.setitem(sys.modules, f"ogb.{name}", module)
    package = types.ModuleType("ogb")
    package.__spec__ = importlib.machinery.ModuleSpec("ogb", None)
    package.__path__ = []
    monkeypatch.setitem(sys.modules, "ogb", package)


def put_ogb(root, family, name):
    (raw(root, family, f"{name}/raw") / "edge.csv.gz").touch()


def test_ogb_splits(tmp_path, monkeypatch):
    install_ogb(monkeypatch)
    put_ogb(tmp_path, "OGB-G", "ogbg_molhiv")
    put_ogb(tmp_path, "OGB-N", "ogbn_arxiv")
    assert opened("ogbg-molhiv", tmp_path).fields["split"].values.tolist() == [0, 2, 1, -1]
    table = opened("ogbn-arxiv", tmp_path)
    masks = [table.fields[f"{name}_mask"].values.tolist() for name in ("train", "val", "test")]
    assert masks == [[True, False, False], [False, False, True], [False, True, False]]
    table.validate()


def test_a_question_of_ogb_is_an_error(tmp_path, monkeypatch):
    install_ogb(monkeypatch, "This will download 56GB. Will you proceed? (y/N)")
    put_ogb(tmp_path, "OGB-N", "ogbn_papers100m")
    with pytest.raises(DatasetError, match="56GB"):
        opened("ogbn-papers100M", tmp_path)


@pytest.mark.parametrize(
    ("spec", "package"), [("ogbg-molhiv", "ogb"), ("ogbn-arxiv", "ogb"), ("ESOL", "rdkit")]
)
def test_missing_packages_are_named(spec, package, tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingPackageError, match=f"needs the package '{package}'") as caught:
        opened(spec, tmp_path)
    assert caught.value.hint == f"pip install {package}"


def test_load_processed(tmp_path):
    graphs = [Data(x=torch.ones(n, 1), edge_index=torch.tensor([[0], [1]])) for n in (2, 3)]
    InMemoryDataset.save(graphs, str(tmp_path / "data.pt"))
    assert [g.num_nodes for g in load_processed(tmp_path / "data.pt")] == [2, 3]
    for saved in (graphs, tuple(graphs), graphs[1]):
        torch.save(saved, tmp_path / "list.pt")
        assert [g.num_nodes for g in load_processed(tmp_path / "list.pt")][-1] == 3
    torch.save({"a": 1}, tmp_path / "other.pt")
    with pytest.raises(DatasetError, match="got dict"):
        load_processed(tmp_path / "other.pt")


def test_load_processed_refuses_code(tmp_path):
    torch.save([Hostile()], tmp_path / "bad.pt")
    with pytest.raises(DatasetError, match="run code"):
        load_processed(tmp_path / "bad.pt")
    assert "TGP_CODE_RAN" not in os.environ
