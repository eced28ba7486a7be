"""The table of known datasets: names, where their raw files lie, and which class reads them. Imports nothing heavy."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tgp.errors import UnknownNameError
from tgp.sources.members import MOLECULE_NET, MOLECULE_NET_FILES, OGB_G, PYGSP, TU
from tgp.values import parse_call

__all__ = ["FAMILIES", "Family", "KnownDataset", "default_root", "find_raw", "known_names", "resolve"]


EDGE_LIST_SUFFIXES = (".edgelist", ".edges", ".txt", ".csv", ".tsv", ".gr", ".el")
FILE_SUFFIXES = (".npz", ".h5", ".hdf5", ".pt", ".graphml", *EDGE_LIST_SUFFIXES, ".gz", ".xz")
"""Suffixes of the files that :mod:`tgp.sources.local_files` reads."""


@dataclass(frozen=True)
class Family:
    """A collection whose members one class reads.

    Args:
        name: how a name is qualified (``TUDataset/MUTAG``) and the folder below the root.
        target: the class, ``"module:attribute"``.
        members: known names.
        summary: one line for the listing.
        folder: raw folder below the family's folder; ``{name}`` and ``{lower}`` are filled in.
        files: raw files that must be there before anything is read.
        special: the same of members whose files have other names.
        splits: parts that the class opens one at a time, by its argument ``split``.
        whole: members without splits.
        host: where downloads come from; empty if the data is generated.
        named: whether the class takes a ``name``.
        needs: package that must be installed.
        open_ended: whether names outside ``members`` may exist.
    """

    name: str
    target: str
    members: tuple[str, ...]
    summary: str
    folder: str = "{name}/raw"
    files: tuple[str, ...] = ()
    special: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    splits: tuple[str, ...] = ()
    whole: tuple[str, ...] = ()
    host: str = "github.com"
    named: bool = True
    needs: str = ""
    open_ended: bool = False


@dataclass(frozen=True)
class KnownDataset:
    """A dataset that the table knows: its family, its name as the family writes it, and constructor arguments."""

    family: Family
    name: str
    params: dict[str, str] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """Name for messages."""
        return f"{self.family.name}/{self.name}"

    def raw_folder(self) -> str:
        """Where the raw files lie below the family's folder."""
        return _fill(self.family.folder, self.name)

    def raw_files(self) -> list[str]:
        """Names of the raw files."""
        return [_fill(name, self.name) for name in self.family.special.get(self.name, self.family.files)]

    def parts(self) -> list[KnownDataset]:
        """This dataset by its splits, if its class opens one at a time and none is chosen; else itself."""
        if "split" in self.params or self.name in self.family.whole:
            return [self]
        return [
            KnownDataset(self.family, self.name, {**self.params, "split": split})
            for split in self.family.splits
        ] or [self]


def _fill(template: str, name: str) -> str:
    lower = name.lower()
    return template.format(
        name=name, lower=lower, under=lower.replace("-", "_"), capital=name.capitalize(), short=lower[:3]
    )


def _pyg(cls: str) -> str:
    return f"torch_geometric.datasets:{cls}"


_SPLITS = ("train", "val", "test")
_SPLIT = "all graphs, told apart by the field 'split', or :split=train, val, test"

FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (
        Family(
            "TUDataset",
            _pyg("TUDataset"),
            TU,
            "Graph classification (TU Dortmund)",
            files=("{name}_A.txt", "{name}_graph_indicator.txt"),
            host="www.chrsmrrs.com",
            open_ended=True,
        ),
        Family(
            "Planetoid",
            _pyg("Planetoid"),
            ("Cora", "CiteSeer", "PubMed"),
            "Citation graphs with the public split",
            files=tuple(
                f"ind.{{lower}}.{part}"
                for part in ["x", "tx", "allx", "y", "ty", "ally", "graph", "test.index"]
            ),
        ),
        Family(
            "HeterophilousGraphDataset",
            _pyg("HeterophilousGraphDataset"),
            ("Roman-empire", "Amazon-ratings", "Minesweeper", "Tolokers", "Questions"),
            "Node classification under heterophily",
            folder="{under}/raw",
            files=("{under}.npz",),
        ),
        Family(
            "CitationFull",
            _pyg("CitationFull"),
            ("Cora", "Cora_ML", "CiteSeer", "DBLP", "PubMed"),
            "Full citation graphs",
            folder="{lower}/raw",
            files=("{lower}.npz",),
        ),
        Family(
            "Amazon",
            _pyg("Amazon"),
            ("Computers", "Photo"),
            "Co-purchase graphs",
            folder="{capital}/raw",
            files=("amazon_electronics_{lower}.npz",),
        ),
        Family(
            "Coauthor",
            _pyg("Coauthor"),
            ("CS", "Physics"),
            "Co-author graphs",
            files=("ms_academic_{short}.npz",),
        ),
        Family(
            "GNNBenchmarkDataset",
            _pyg("GNNBenchmarkDataset"),
            ("PATTERN", "CLUSTER", "MNIST", "CIFAR10", "TSP", "CSL"),
            f"Benchmarking GNNs; {_SPLIT}",
            files=("{name}_v2.pt",),
            special={"CSL": ("graphs_Kary_Deterministic_Graphs.pkl", "y_Kary_Deterministic_Graphs.pt")},
            splits=_SPLITS,
            whole=("CSL",),
            host="data.pyg.org",
        ),
        Family(
            "MoleculeNet",
            _pyg("MoleculeNet"),
            MOLECULE_NET,
            "Molecular properties",
            folder="{lower}/raw",
            special={name: (f"{file}.csv",) for name, file in MOLECULE_NET_FILES.items()},
            host="deepchemdata.s3-us-west-1.amazonaws.com",
            needs="rdkit",
        ),
        Family(
            "LRGBDataset",
            _pyg("LRGBDataset"),
            ("PascalVOC-SP", "COCO-SP", "PCQM-Contact", "Peptides-func", "Peptides-struct"),
            f"Long-range graph benchmark; {_SPLIT}",
            folder="{lower}/raw",
            files=tuple(f"{split}.pt" for split in _SPLITS),
            special={
                name: tuple(f"{split}.pickle" for split in _SPLITS) for name in ("PascalVOC-SP", "COCO-SP")
            },
            splits=_SPLITS,
            host="www.dropbox.com",
        ),
        Family(
            "ZINC",
            _pyg("ZINC"),
            ("ZINC",),
            f"Molecules (regression); :subset=true for the 12k subset; {_SPLIT}",
            folder="raw",
            splits=_SPLITS,
            files=tuple(f"{s}.{e}" for e in ("pickle", "index") for s in ("train", "val", "test")),
            host="www.dropbox.com",
            named=False,
        ),
        Family(
            "GraphClassificationBench",
            "tgp.datasets.graph_classification_bench:GraphClassificationBench",
            ("GraphClassificationBench",),
            "Graph classification that needs topology and features; :easy=false, :small=false, :split=test",
            folder="raw",
            named=False,
        ),
        Family(
            "EXPWL1Dataset",
            "tgp.datasets.expwl1:EXPWL1Dataset",
            ("EXPWL1",),
            "Pairs of graphs that test the expressive power of pooling",
            folder="raw",
            files=("EXPWL1.pkl",),
            named=False,
        ),
        Family(
            "MultipartiteGraphDataset",
            "tgp.datasets.multipartite_graph:MultipartiteGraphDataset",
            ("Multipartite",),
            "Multipartite graphs",
            folder="raw",
            host="zenodo.org",
            named=False,
        ),
        Family(
            "GsetDataset",
            "tgp.datasets.gset:GsetDataset",
            tuple(f"G{i}" for i in (*range(1, 68), 70, 72, 77, 81)),
            "Max-cut graphs",
            host="web.stanford.edu",
        ),
        Family(
            "CSBMDataset",
            "tgp.datasets.csbm:CSBMDataset",
            ("CSBM",),
            "Contextual stochastic block models, generated",
            host="",
            named=False,
        ),
        Family(
            "PyGSPDataset",
            "tgp.datasets.pygsp:PyGSPDataset",
            PYGSP,
            "Graphs of the PyGSP package, generated",
            host="",
            needs="pygsp",
        ),
        Family(
            "OGB-G",
            "ogb.graphproppred:PygGraphPropPredDataset",
            OGB_G,
            "Open Graph Benchmark, graph property prediction",
            folder="{under}/raw",
            host="snap.stanford.edu",
            needs="ogb",
            open_ended=True,
        ),
        Family(
            "OGB-N",
            "ogb.nodeproppred:PygNodePropPredDataset",
            ("ogbn-arxiv", "ogbn-products", "ogbn-proteins", "ogbn-mag", "ogbn-papers100M"),
            "Open Graph Benchmark, node property prediction",
            folder="{under}/raw",
            host="snap.stanford.edu",
            needs="ogb",
            open_ended=True,
        ),
    )
}


def _entries() -> Iterator[tuple[str, Family, str]]:
    for family in FAMILIES.values():
        for name in family.members:
            yield name, family, f"{family.name}/{name}"


def known_names() -> list[str]:
    """Every name; those that two collections share are qualified after the first."""
    seen: set[str] = set()
    names = []
    for name, _, label in _entries():
        names.append(label if name.lower() in seen else name)
        seen.add(name.lower())
    return names


def resolve(spec: str) -> KnownDataset | None:
    """The dataset that ``"NAME"``, ``"Family/NAME"`` or ``"NAME:key=value"`` means, ignoring case; ``None`` if unknown.

    Raises:
        UnknownNameError: for a known collection without such a member.
    """
    name, params = parse_call(spec)
    head, slash, rest = name.partition("/")
    families = {key.lower(): family for key, family in FAMILIES.items()}
    if slash and head.lower() in families:
        family = families[head.lower()]
        members = {member.lower(): member for member in family.members}
        if rest.lower() not in members and not family.open_ended:
            raise UnknownNameError(f"dataset of {family.name}", rest, family.members)
        return KnownDataset(family, members.get(rest.lower(), rest), params)
    for member, family, _ in _entries():
        if member.lower() == name.lower():
            return KnownDataset(family, member, params)
    for prefix, key in (("ogbg-", "OGB-G"), ("ogbn-", "OGB-N")):
        if name.lower().startswith(prefix):
            return KnownDataset(FAMILIES[key], name.lower(), params)
    return None


def nearest_names(name: str, count: int = 3) -> list[str]:
    """Known names that look like ``name``."""
    valid = {known.lower(): known for known in known_names()}
    found = difflib.get_close_matches(name.lower(), valid, n=count, cutoff=0.6)
    return [valid[key] for key in found]


def default_root() -> Path:
    """Where datasets are kept if nobody says otherwise: ``$TGP_DATA``, else ``./data``."""
    return Path(os.environ.get("TGP_DATA") or "data")


def find_raw(known: KnownDataset, root: Path) -> Path | None:
    """The family's folder below which the raw files lie, or ``None``: ``root/Family`` first, then ``root``."""
    for base in family_folders(known, root):
        folder = base / known.raw_folder()
        files = known.raw_files()
        if (
            all((folder / name).is_file() for name in files)
            if files
            else folder.is_dir() and any(folder.iterdir())
        ):
            return base
    return None


def family_folders(known: KnownDataset, root: Path) -> list[Path]:
    """Where a family's folder may be, the usual place first."""
    return [root / known.family.name, root]
