"""Write the generated pages: the table of poolers, the help of the commands, the API pages and the list of decisions.

python docs/_tools/reference.py          # write
python docs/_tools/reference.py --check  # exit 1 if a page is out of date
"""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tgp.engine.methods import METHODS
from tgp.poolers.table import pooler_map
from tgp.registry import Entry
from tgp_cli.main import COMMANDS, examples

FOLDER = Path(__file__).resolve().parents[1] / "reference"
POOLER_MODULES = sorted({entry.target.partition(":")[0] for entry in pooler_map.entries.values()})
API: dict[str, tuple[str, str, list[str]]] = {
    "poolers.md": (
        "Poolers",
        "Build a pooler with its class or with `get_pooler(alias, ...)`. The [table](../poolers.md) describes each of them.",
        ["tgp.poolers.factory", "tgp.poolers.table", *POOLER_MODULES],
    ),
    "frame.md": (
        "Base classes of poolers",
        "Base classes with `forward`, the checks of its arguments, its execution and its result.",
        [
            "tgp.src.base",
            "tgp.src.inputs",
            "tgp.src.execution",
            "tgp.src.row_execution",
            "tgp.src.output",
            "tgp.src.dense",
            "tgp.src.mlp",
            "tgp.src.level",
            "tgp.src.scored",
            "tgp.src.precoarsening",
        ],
    ),
    "stages.md": (
        "Stages",
        "Selectors, reducers, connectors and lifters, and the message passing layers of some poolers.",
        [
            "tgp.select.base_select",
            "tgp.select.dp_select",
            "tgp.select.edge_contraction_select",
            "tgp.select.eigenpool_select",
            "tgp.select.graclus_select",
            "tgp.select.identity_select",
            "tgp.select.kmis_select",
            "tgp.select.lapool_select",
            "tgp.select.level_select",
            "tgp.select.maxcut_select",
            "tgp.select.mlp_select",
            "tgp.select.ndp_select",
            "tgp.select.nmf_select",
            "tgp.select.sep_select",
            "tgp.select.topk_select",
            "tgp.reduce.base_reduce",
            "tgp.reduce.aggr_reduce",
            "tgp.reduce.eigenpool_reduce",
            "tgp.reduce.get_aggr",
            "tgp.reduce.global_reduce",
            "tgp.connect.base_conn",
            "tgp.connect.dense_conn",
            "tgp.connect.eigenpool_conn",
            "tgp.connect.kron_conn",
            "tgp.lift.base_lift",
            "tgp.lift.eigenpool_lift",
            "tgp.mp.gtvconv",
            "tgp.mp.panconv",
        ],
    ),
    "data.md": (
        "Data",
        "Stores as datasets, batches with levels, loaders, transforms, and named and synthetic datasets.",
        [
            "tgp.data.dataset",
            "tgp.data.loaders",
            "tgp.data.batch",
            "tgp.data.pooled_data",
            "tgp.data.sampler",
            "tgp.data.graph_hierarchy",
            "tgp.data.transforms",
            "tgp.data.convert",
            "tgp.data.collate",
            "tgp.datasets",
            "tgp.sources.builtin",
            "tgp.datasets.csbm",
            "tgp.datasets.expwl1",
            "tgp.datasets.graph_classification_bench",
            "tgp.datasets.gset",
            "tgp.datasets.multipartite_graph",
            "tgp.datasets.pygsp",
        ],
    ),
    "build.md": (
        "Build and inspect",
        "The functions that the commands of `tgp` call.",
        [
            "tgp.build.api",
            "tgp.build.config",
            "tgp.build.run",
            "tgp.build.progress",
            "tgp.build.findings",
            "tgp.sources.source",
            "tgp.inspect.overview",
            "tgp.inspect.figures",
            "tgp.inspect.spectral_errors",
            "tgp.inspect.thresholds",
            "tgp.inspect.compare",
            "tgp.inspect.export",
            "tgp.build.jobs",
            "tgp.build.merge",
            "tgp.inspect.recompute",
            "tgp.build.summary",
            "tgp.inspect.report.page",
            "tgp.inspect.report.scene",
            "tgp.inspect.report.placement",
            "tgp.inspect.plot.level_figure",
            "tgp.inspect.plot.pooler_gallery",
            "tgp.inspect.plot.canvas",
        ],
    ),
    "engine.md": (
        "Engine and store",
        "The packages that do not import torch: blocks of graphs, schedules, coarsening, and the HDF5 store.",
        [
            "tgp.engine.coarsening",
            "tgp.engine.schedule",
            "tgp.engine.level_method",
            "tgp.engine.contraction",
            "tgp.engine.methods",
            "tgp.engine.metrics",
            "tgp.ragged.block",
            "tgp.ragged.fields",
            "tgp.ragged.hierarchy",
            "tgp.store.read.reader",
            "tgp.store.write.writer",
            "tgp.store.write.part_writer",
            "tgp.store.write.memory",
            "tgp.store.io.guard",
            "tgp.store.io.files",
            "tgp.store.io.memory",
            "tgp.store.format.fingerprint",
            "tgp.store.format.data_digest",
            "tgp.store.format.manifest",
            "tgp.store.format.schema",
            "tgp.store.io.remote",
            "tgp.store.verify",
            "tgp.registry",
            "tgp.errors",
        ],
    ),
    "tools.md": (
        "Tools",
        "Tensor functions, losses as functions, and checks for your own poolers.",
        [
            "tgp.utils.ops.adjacency",
            "tgp.utils.ops.assign",
            "tgp.utils.ops.batching",
            "tgp.utils.ops.connectivity",
            "tgp.utils.ops.sampling",
            "tgp.utils.losses.balance",
            "tgp.utils.losses.cut",
            "tgp.utils.losses.modularity",
            "tgp.utils.losses.reconstruct",
            "tgp.utils.cheatsheet",
            "tgp.utils.tracing",
            "tgp.utils.layout",
            "tgp.utils.signature",
            "tgp.utils.typing",
            "tgp.utils.user_code",
            "tgp.testing.conformance",
            "tgp.testing.cases",
            "tgp.testing.checks",
            "tgp.testing.methods",
            "tgp.testing.batches",
            "tgp.testing.calls",
            "tgp.testing.syncs",
            "tgp.testing.graphs",
            "tgp.testing.strategies",
        ],
    ),
}
"""Title, first sentence and modules of each API page."""

NOTE = "<!-- Generated by docs/_tools/reference.py; do not edit. -->\n\n"


def pooler_entries() -> list[Entry]:
    """Return the entries of all poolers, then an entry for every level method without a pooler class.

    Poolers and methods of installed packages are not listed: the pages must not depend on what else is installed.
    """
    classes = pooler_map.entries
    methods = [entry for alias, entry in METHODS.entries.items() if alias not in classes]
    return [*classes.values(), *(_method_entry(entry) for entry in methods)]


def _method_entry(entry: Entry) -> Entry:
    """Return the entry of the pooler that ``get_pooler`` builds for a level method."""
    traits = {"dense": METHODS[entry.alias].dense, "trainable": False, "loss": False, "precoarsenable": True}
    return Entry(entry.alias, "tgp.src.level:LevelPooling", entry.summary, traits)


def _class_link(entry: Entry) -> str:
    page = "frame" if entry.attribute == "LevelPooling" else "poolers"
    return f"[`{entry.attribute}`](api/{page}.md#{entry.target.replace(':', '.')})"


def _paper_link(entry: Entry) -> str:
    """Return a link to the first paper in the docstring of a class, without importing the class."""
    module, _, name = entry.target.partition(":")
    spec = importlib.util.find_spec(module)
    tree = ast.parse(Path(spec.origin).read_text()) if spec and spec.origin else ast.Module([], [])
    texts = [
        ast.get_docstring(node) or ""
        for node in tree.body
        if isinstance(node, ast.ClassDef) and node.name == name
    ]
    found = re.search(r"https?://[^\s>)]+", "".join(texts))
    return f"[paper]({found[0]})" if found else ""


def poolers_page() -> str:
    """Return the page with the table of poolers."""
    mark = {True: "✓", False: ""}
    rows = [
        f"| `{e.alias}` | {_class_link(e)} | {e.summary} "
        f"| {mark[e.traits['precoarsenable']]} | {mark[e.traits['trainable']]} | {mark[e.traits['dense']]} "
        f"| {mark[e.traits['loss']]} | {_paper_link(e)} |"
        for e in pooler_entries()
    ]
    head = (
        "| alias | class | what it does | precomputed | trainable | dense | loss | from |\n"
        "|---|---|---|:-:|:-:|:-:|:-:|---|\n"
    )
    lead = (
        "Build one with `get_pooler(alias, ...)` or with its class, which lists the parameters.\n\n"
        "- *precomputed*: `tgp coarsen` computes it before training; `tgp poolers ALIAS` lists the parameters of a level.\n"
        "- *dense*: a fixed number of supernodes per graph and a full matrix between them "
        "([more](../concepts.md#sparse-and-dense)).\n"
        "- *loss*: has auxiliary losses in `out.loss`.\n\n"
    )
    return "---\nhide: [toc]\n---\n\n" + NOTE + "# Poolers\n\n" + lead + head + "\n".join(rows) + "\n"


def commands_page() -> str:
    """Return the page with the help of every command."""
    environment = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}
    lead = (
        "The output of `tgp COMMAND --help`. [The command line](../guide/command-line.md) explains how the commands work "
        "together and lists the exit codes.\n"
    )
    parts = [NOTE, f"# Commands\n\n{lead}"]
    for name, command in COMMANDS.items():
        words = [sys.executable, "-m", "tgp_cli.main", name, "--help"]
        text = subprocess.run(words, capture_output=True, text=True, check=True, env=environment).stdout
        epilog = importlib.import_module(command.module).EPILOG
        body = text[: text.rindex(epilog.partition(":")[0])]
        lines = "\n".join(line.rstrip() for line in body.strip().splitlines())
        shown = "\n".join(examples(epilog))
        parts.append(f"\n## tgp {name}\n\n```text\n{lines}\n```\n\n```text\n{shown}\n```\n")
    return "".join(parts)


def api_page(title: str, lead: str, modules: list[str]) -> str:
    """Return an API page with one entry per module."""
    return "".join([NOTE, f"# {title}\n\n{lead}\n", *(f"\n::: {module}\n" for module in modules)])


def decisions_page() -> str:
    """Return the page with one line per decision."""
    rows = []
    for path in sorted((FOLDER.parent / "decisions").glob("[0-9]*.md")):
        title = path.read_text().splitlines()[0].removeprefix("# ")[4:].lstrip(": ")
        rows.append(f"- [{path.name[:4]}]({path.name}) {title}\n")
    lead = (
        "Each page describes one decision: the problem, the choice, the reasons and the rejected alternatives. "
        "The first two digits are the topic: 00 project, 01 engine, 02 store, 03 base classes of poolers, 04 data, "
        "05 command line, build and inspect, 06 methods, 07 poolers and datasets, 08 documentation, 09 trust.\n\n"
    )
    return NOTE + "# Decisions\n\n" + lead + "".join(rows)


def _figure(table: str, row: tuple[str, ...], column: int) -> str:
    """Return one figure of docs/performance.md: a cell of the row that starts with the given cells."""
    for line in table.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and tuple(cells[: len(row)]) == row:
            return cells[column]
    raise SystemExit(f"docs/performance.md has no row {row}: README.md shows a figure of this row")


def figures_table() -> str:
    """Return the table of figures for the README. The figures are copied from docs/performance.md."""
    table = (FOLDER.parent / "performance.md").read_text()
    schedules = ("graclus*3", "kmis*3", "ndp*2", "sep*3")
    speeds = ", ".join(f"`{name}` {_figure(table, ('NCI1', f'`{name}`'), 2)}" for name in schedules)
    whole = _figure(table, ("`graclus*3`, 100,000 molecules, one process",), 1)
    disk, plain = (_figure(table, ("NCI1", "3", "128", "0"), column) for column in (4, 7))
    grid = "grid 1000000"
    steps = {
        "join pairs and contract, a grid of a million nodes": (
            "match + contract",
            "tgp graclus",
            "networkit",
        ),
        "contract alone, the same grid": ("contraction", "tgp", "scipy SᵀAS"),
    }
    rows = [
        f"| coarsen NCI1, from arrays to arrays, graphs/s | {speeds} | |",
        f"| `tgp coarsen --pooler 'graclus*3'`, 100,000 graphs into a store, quality figures and all | {whole} | |",
        f"| load NCI1 with 3 levels, batch 128, graphs/s | {disk} from disk | PyG, without levels, in memory: {plain} |",
    ]
    for what, (step, ours, theirs) in steps.items():
        mine, other = (_figure(table, (grid, step, who), 3) for who in (ours, theirs))
        rows.append(f"| {what}, million edges/s | {mine} | {theirs}: {other} |")
    mine, other = (_figure(table, ("`ndp*2`, per graph",), column) for column in (1, 2))
    rows.insert(
        1,
        f"| `PreCoarsening(['ndp', 'ndp'])`, MUTAG, one graph at a time, graphs/s | {mine} | tgp 1.0.2: {other} |",
    )
    mine, other = (_figure(table, ("mincut",), column) for column in (1, 2))
    rows.append(f"| `mincut` on 64 graphs, forward and backward | {mine} ms | tgp 1.0.2: {other} ms |")
    seconds, memory = (_figure(table, ("NY", "365,050", "ndp"), column) for column in (3, 5))
    rows.append(f"| one level of NDP on the roads of New York, 365,050 edges | {seconds} s, {memory} MB | |")
    return "| what | tgp | other library |\n|---|---|---|\n" + "\n".join(rows) + "\n"


BASELINES = {"nopool": "identity", "random": "partition at a chosen ratio"}
"""Poolers to compare others with, and what they do."""


def groups_table() -> str:
    """Return the table of poolers by kind, for the README."""
    kinds: dict[str, list[str]] = {
        "deterministic, can be precomputed": [],
        "inside the model, sparse result": [],
        "inside the model, dense result": [],
    }
    precomputed, sparse, dense = kinds.values()
    for entry in pooler_entries():
        if entry.alias not in BASELINES:
            inside = dense if entry.traits["dense"] else sparse
            (precomputed if entry.traits["precoarsenable"] else inside).append(f"`{entry.alias}`")
    kinds["baselines"] = [f"`{alias}` ({text})" for alias, text in BASELINES.items()]
    rows = [f"| {kind} | {', '.join(names)} |" for kind, names in kinds.items()]
    return "| kind | names |\n|---|---|\n" + "\n".join(rows) + "\n"


def readme_page() -> str:
    """Return the README with its two generated tables."""
    text = (FOLDER.parents[1] / "README.md").read_text()
    for name, make in {"figures": figures_table, "poolers": groups_table}.items():
        pattern = re.compile(rf"(<!-- {name}: [^>]*-->\n).*?(<!-- end -->)", flags=re.S)
        made = make().replace("\\", r"\\")
        text, count = pattern.subn(rf"\1\n{made}\n\2", text)
        if count != 1:
            raise SystemExit(
                f"README.md must contain the markers of the table {name!r} exactly once, got {count}"
            )
    return text


PAGES: dict[str, Callable[[], str]] = {
    "reference/poolers.md": poolers_page,
    "reference/commands.md": commands_page,
    "decisions/index.md": decisions_page,
    "../README.md": readme_page,
    **{f"reference/api/{name}": partial(api_page, *page) for name, page in API.items()},
}
"""Functions that return the text of each generated page, by path relative to docs."""


def main() -> int:
    """Write the pages, or report those that are out of date; return the exit status."""
    stale = []
    for name, make in PAGES.items():
        text, path = make(), FOLDER.parent / name
        path.parent.mkdir(exist_ok=True)
        if path.exists() and path.read_text() == text:
            continue
        stale.append(name)
        if "--check" not in sys.argv:
            path.write_text(text)
    print("out of date: " + ", ".join(stale) if stale else "up to date")
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
