"""Table of the known dataset collections: members, raw files, and the class that reads them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["FAMILIES", "SPLITS", "Family"]

SPLITS = ("train", "val", "test")
"""Parts of a dataset: the values 0, 1, 2 of the field ``split``. Graphs of no part have the value -1."""


@dataclass(frozen=True)
class Family:
    """Collection of datasets that one class reads.

    Templates may contain ``{name}``, ``{lower}``, ``{under}``, ``{capital}`` and ``{short}``, see
    :class:`tgp.sources.names.KnownDataset`.

    Args:
        name: Name of the collection, which qualifies a dataset (``TUDataset/MUTAG``), and its folder below the root.
        target: Dataset class as ``"module:attribute"``.
        members: Known datasets.
        summary: Description of one line.
        folder: Template of the raw folder below the folder of the collection.
        files: Templates of the raw files that must exist.
        special: Member -> its raw files, if they are not those of ``files``.
        splits: Values of the argument ``split`` of a class that opens one split at a time.
        whole: Members without splits.
        host: Host of the downloads; empty if the data is generated.
        named: True if the class takes a ``name``.
        needs: Package that must be installed.
        open_ended: True if there may be datasets that are not in ``members``.
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


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_TOX21 = _words("AhR AR AR-LBD ARE aromatase ATAD5 ER ER-LBD HSE MMP p53 PPAR-gamma")

_TU = (
    *_words("""
AIDS alchemy_full aspirin benzene BZR BZR_MD COIL-DEL COIL-RAG COLLAB COLORS-3 COX2 COX2_MD Cuneiform
dblp_ct1 dblp_ct2 DBLP_v1 DD deezer_ego_nets DHFR DHFR_MD ENZYMES ER_MD ethanol facebook_ct1
facebook_ct2 Fingerprint FIRSTMM_DB FRANKENSTEIN github_stargazers highschool_ct1 highschool_ct2
IMDB-BINARY IMDB-MULTI infectious_ct1 infectious_ct2 KKI Letter-high Letter-low Letter-med malonaldehyde
MCF-7 MCF-7H mit_ct1 mit_ct2 MOLT-4 MOLT-4H MSRC_9 MSRC_21 MSRC_21C MUTAG Mutagenicity naphthalene NCI1
NCI109 NCI-H23 NCI-H23H OHSU OVCAR-8 OVCAR-8H P388 P388H PC-3 PC-3H Peking_1 PROTEINS PROTEINS_full
PTC_FM PTC_FR PTC_MM PTC_MR QM9 REDDIT-BINARY REDDIT-MULTI-5K REDDIT-MULTI-12K reddit_threads
salicylic_acid SF-295 SF-295H SN12C SN12CH SW-620 SW-620H SYNTHETIC SYNTHETICnew Synthie toluene
TRIANGLES tumblr_ct1 tumblr_ct2 twitch_egos TWITTER-Real-Graph-Partial UACC257 UACC257H uracil Yeast
YeastH ZINC_full ZINC_test ZINC_train ZINC_val
"""),
    *(f"Tox21_{assay}_{part}" for assay in _TOX21 for part in ("training", "testing", "evaluation")),
)

_MOLECULE_NET_FILES = {
    "ESOL": "delaney-processed",
    "FreeSolv": "SAMPL",
    "Lipo": "Lipophilicity",
    "PCBA": "pcba",
    "MUV": "muv",
    "HIV": "HIV",
    "BACE": "bace",
    "BBBP": "BBBP",
    "Tox21": "tox21",
    "ToxCast": "toxcast_data",
    "SIDER": "sider",
    "ClinTox": "clintox",
}

_OGB_MOL = _words("hiv pcba bace bbbp clintox muv sider tox21 toxcast esol freesolv lipo chembl")
_OGB_G = (*(f"ogbg-mol{name}" for name in _OGB_MOL), "ogbg-ppa", "ogbg-code2")

_PYGSP = _words("""
Airfoil BarabasiAlbert Comet Community DavidSensorNet ErdosRenyi Grid2d Logo Minnesota Path
RandomRegular Ring Sensor StochasticBlockModel SwissRoll Torus Bunny Cube Sphere TwoMoons
""")


def _pyg(cls: str) -> str:
    return f"torch_geometric.datasets:{cls}"


_SPLIT = "all graphs, with their part in the field 'split', or :split=train, val, test"

FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (
        Family(
            "TUDataset",
            _pyg("TUDataset"),
            _TU,
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
            splits=SPLITS,
            whole=("CSL",),
            host="data.pyg.org",
        ),
        Family(
            "MoleculeNet",
            _pyg("MoleculeNet"),
            tuple(_MOLECULE_NET_FILES),
            "Molecular properties",
            folder="{lower}/raw",
            special={name: (f"{file}.csv",) for name, file in _MOLECULE_NET_FILES.items()},
            host="deepchemdata.s3-us-west-1.amazonaws.com",
            needs="rdkit",
        ),
        Family(
            "LRGBDataset",
            _pyg("LRGBDataset"),
            ("PascalVOC-SP", "COCO-SP", "PCQM-Contact", "Peptides-func", "Peptides-struct"),
            f"Long-range graph benchmark; {_SPLIT}",
            folder="{lower}/raw",
            files=tuple(f"{split}.pt" for split in SPLITS),
            special={
                name: tuple(f"{split}.pickle" for split in SPLITS) for name in ("PascalVOC-SP", "COCO-SP")
            },
            splits=SPLITS,
            host="www.dropbox.com",
        ),
        Family(
            "ZINC",
            _pyg("ZINC"),
            ("ZINC",),
            f"Molecules (regression); :subset=true for the 12k subset; {_SPLIT}",
            folder="raw",
            splits=SPLITS,
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
            folder="raw",
            files=("{name}",),
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
            _PYGSP,
            "Graphs of the PyGSP package, generated",
            host="",
            needs="pygsp",
        ),
        Family(
            "OGB-G",
            "ogb.graphproppred:PygGraphPropPredDataset",
            _OGB_G,
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
