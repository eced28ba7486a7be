"""Names of known datasets and the folders of their raw files."""

import subprocess
import sys

import pytest

from tgp.errors import UnknownNameError
from tgp.sources.families import FAMILIES
from tgp.sources.names import KnownDataset, find_raw, known_names, nearest_names, resolve


@pytest.mark.parametrize(
    ("spec", "label", "params"),
    [
        ("MUTAG", "TUDataset/MUTAG", {}),
        ("mutag", "TUDataset/MUTAG", {}),
        ("reddit-binary", "TUDataset/REDDIT-BINARY", {}),
        ("Cora", "Planetoid/Cora", {}),
        ("citationfull/cora", "CitationFull/Cora", {}),
        ("ENZYMES:use_node_attr=true", "TUDataset/ENZYMES", {"use_node_attr": "true"}),
        ("TUDataset/brand_new", "TUDataset/brand_new", {}),
        ("ogbg-MOLHIV", "OGB-G/ogbg-molhiv", {}),
        ("ogbn-anything", "OGB-N/ogbn-anything", {}),
        ("zinc:subset=true", "ZINC/ZINC", {"subset": "true"}),
    ],
)
def test_names_are_found_in_any_case(spec, label, params):
    known = resolve(spec)
    assert known.label == label
    assert known.params == params


def test_unknown_names():
    assert resolve("MUTAGG") is None
    assert nearest_names("MUTAGG")[0] == "MUTAG"
    with pytest.raises(UnknownNameError, match="'Cora'"):
        resolve("Planetoid/Corra")


def test_every_listed_name_resolves_to_itself():
    names = known_names()
    assert len(names) == len(set(names)) > 250
    for name in names:
        assert resolve(name).name == name.rpartition("/")[2]


@pytest.mark.parametrize(
    ("spec", "folder", "file"),
    [
        ("MUTAG", "MUTAG/raw", "MUTAG_A.txt"),
        ("Roman-empire", "roman_empire/raw", "roman_empire.npz"),
        ("Photo", "Photo/raw", "amazon_electronics_photo.npz"),
        ("Physics", "Physics/raw", "ms_academic_phy.npz"),
        ("DBLP", "dblp/raw", "dblp.npz"),
        ("Cora", "Cora/raw", "ind.cora.allx"),
    ],
)
def test_raw_files_are_found_in_the_folders_of_pyg(spec, folder, file, tmp_path):
    known = resolve(spec)
    assert known.raw_folder() == folder
    assert file in known.raw_files()
    assert find_raw(known, tmp_path) is None
    for base in (tmp_path / "a" / known.family.name, tmp_path / "b"):
        (base / folder).mkdir(parents=True)
        for name in known.raw_files():
            (base / folder / name).touch()
    assert find_raw(known, tmp_path / "a") == tmp_path / "a" / known.family.name
    assert find_raw(known, tmp_path / "b") == tmp_path / "b"


@pytest.mark.slow
def test_raw_paths_agree_with_the_pyg_classes(tmp_path):
    """Compare with the paths of the dataset classes, which do not download anything here."""
    from tgp.registry import load

    for family in (
        "TUDataset",
        "Planetoid",
        "HeterophilousGraphDataset",
        "CitationFull",
        "Amazon",
        "Coauthor",
    ):
        entry = FAMILIES[family]
        for member in entry.members[:3]:
            known = KnownDataset(entry, member)
            cls = load(entry.target)
            probe = type(
                "Probe",
                (cls,),
                {
                    "_download": lambda self: (_ for _ in ()).throw(StopIteration),
                    "process": lambda self: None,
                },
            )
            dataset = probe.__new__(probe)
            with pytest.raises((StopIteration, RuntimeError)):
                dataset.__init__(str(tmp_path), member)
            expected = {str(tmp_path / known.raw_folder() / name) for name in known.raw_files()}
            assert set(dataset.raw_paths) == expected


def test_listing_names_imports_nothing_heavy():
    code = "import sys, tgp.sources.names as n; n.known_names(); print([m for m in ('torch', 'numpy', 'numba') if m in sys.modules])"
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.strip()
        == "[]"
    )
