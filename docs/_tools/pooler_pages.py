"""Pages of the poolers: an index with all pictures, and one page per pooler, made from the catalog and the docstrings."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from html import escape
from itertools import chain
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from pictures import FOLDER, OPTIONS, OWN_OPTIONS, STEPS
from rst import to_markdown

from tgp.engine.methods import METHODS
from tgp.inspect.catalog import ParameterInfo, PoolerInfo, describe_pooler
from tgp.poolers.table import pooler_map
from tgp.registry import Entry

_CODE = re.compile(r"`([^`]*)`")

BASELINES = {"nopool": "identity", "random": "partition at a chosen ratio"}
"""Poolers to compare others with, and what they do."""

EXAMPLE = {"in_channels": "8", "k": "2"}
"""Values of required parameters in the examples, by name."""

EXAMPLE_TYPES = {"int": "2", "float": "1.0", "bool": "True"}
"""Values of other required parameters, by type."""

SCHEDULES = {"voxel": "voxel:size=0.2,voxel:size=0.4"}
"""Schedules of the examples, if two equal levels make no sense."""

EXTRA = {"partition": "k=2", "kmis": 'scorer="degree"'}
"""Arguments that an example needs although they have a default."""


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


def kinds_of_poolers() -> dict[str, list[Entry]]:
    """Return the poolers by kind."""
    kinds: dict[str, list[Entry]] = {
        "deterministic, can be precomputed": [],
        "inside the model, sparse result": [],
        "inside the model, dense result": [],
        "baselines": [],
    }
    precomputed, sparse, dense, baselines = kinds.values()
    for entry in pooler_entries():
        inside = dense if entry.traits["dense"] else sparse
        kind = precomputed if entry.traits["precoarsenable"] else inside
        (baselines if entry.alias in BASELINES else kind).append(entry)
    return kinds


def _class_link(entry: Entry, api: str) -> str:
    page = "frame" if entry.attribute == "LevelPooling" else "poolers"
    return f"[`{entry.attribute}`]({api}/{page}.md#{entry.target.replace(':', '.')})"


def index_page(note: str) -> str:
    """Return the page that shows all poolers."""
    lead = (
        "Each picture shows the same small graph. Nodes of one colour become one supernode, hollow nodes are dropped, and a node\n"
        "with several colours belongs to several supernodes. A picture leads to the page of the pooler.\n\n"
        "[When to choose which pooler](#which-one) is at the end. In a terminal, `tgp poolers` lists them.\n"
    )
    parts = ["---\nhide: [toc]\n---\n\n", note, "# Poolers\n\n", lead]
    for kind, entries in kinds_of_poolers().items():
        parts.append(f'\n## {kind[0].upper()}{kind[1:]}\n\n<div class="gallery" markdown="1">\n')
        for e in entries:
            parts.append(
                f"\n[![{e.alias}](../img/poolers/{e.alias}.svg) **{e.alias}** {e.summary}](poolers/{e.alias}.md)\n"
            )
        parts.append("\n</div>\n")
    parts.append(
        "\n## Which one?\n\n"
        "- *precomputed*: `tgp coarsen` computes it once, before training.\n"
        "- *dense*: a fixed number of supernodes per graph and a full matrix between them "
        "([more](../concepts.md#sparse-and-dense)).\n"
        "- *loss*: has auxiliary losses in `out.loss`.\n\n"
        '<div class="choose" markdown="1">\n\n'
        "| pooler | good for | precomputed | trainable | dense | loss |\n|---|---|:-:|:-:|:-:|:-:|\n"
    )
    for e in chain.from_iterable(kinds_of_poolers().values()):
        marks = ("precoarsenable", "trainable", "dense", "loss")
        use = _first_sentence(describe_pooler(e.alias).good_for or e.summary)
        flags = " | ".join("✓" if e.traits[mark] else "" for mark in marks)
        parts.append(f"| [`{e.alias}`](poolers/{e.alias}.md) | {_cell(use)} | {flags} |\n")
    return "".join([*parts, "\n</div>\n"])


def _first_sentence(text: str) -> str:
    return text.split(". ")[0].removesuffix(".") + "."


def _cell(text: str) -> str:
    """Return a text for a cell of a table.

    A bar ends a cell, also inside code, and a backslash before it would be shown there. Code with a bar therefore becomes HTML.
    """
    parts = _CODE.split(" ".join(text.split()))
    parts[1::2] = [f"`{code}`" if "|" not in code else f"<code>{escape(code)}</code>" for code in parts[1::2]]
    return "".join(parts).replace("|", "&#124;")


def pooler_page(entry: Entry, note: str) -> str:
    """Return the page of one pooler."""
    info = describe_pooler(entry.alias)
    parts = [
        note,
        f"# {entry.alias}\n\n{entry.summary}.\n\n{_facts(entry)}\n\n",
        f"![{entry.alias} on a small graph](../../img/poolers/{entry.alias}.svg)\n\n{_caption(entry, info)}\n\n",
        f"## What it does\n\n{to_markdown(info.text or entry.summary)}\n",
    ]
    for title, text in (
        ("Use it for", info.good_for),
        ("Avoid it when", info.avoid_when),
        ("Complexity", info.complexity),
    ):
        if text:
            parts.append(f"\n## {title}\n\n{text}\n")
    parts.append(_example(entry, info))
    parts.append(_parameters(entry, info))
    if info.papers:
        rows = "".join(f"- [{paper.title}]({paper.url})\n" for paper in info.papers)
        parts.append(f"\n## Paper\n\n{rows}")
    return "".join(parts)


def _facts(entry: Entry) -> str:
    """Return the class and the traits of a pooler in one line."""
    traits = entry.traits
    facts = [
        _class_link(entry, "../api"),
        "can be [precomputed](../../concepts.md#deterministic-and-trainable)"
        if traits["precoarsenable"]
        else "runs inside the model",
        "trainable" if traits["trainable"] else "no learned weights",
        f"[{'dense' if traits['dense'] else 'sparse'} result](../../concepts.md#sparse-and-dense)",
        "auxiliary losses" if traits["loss"] else "no auxiliary loss",
    ]
    if entry.alias in METHODS and METHODS[entry.alias].external is not None:
        facts.append("graphs [larger than memory](../../guide/larger-than-memory.md)")
    return " · ".join(facts)


def _caption(entry: Entry, info: PoolerInfo) -> str:
    """Return the title of the picture, and how the pooler was called.

    Raises:
        SystemExit: If there is no picture.
    """
    picture = FOLDER / "poolers" / f"{entry.alias}.svg"
    if not picture.exists():
        raise SystemExit(f"{picture.name} is missing. Run: python docs/_tools/pictures.py")
    title = re.search(r"<title>\S+ (.*)</title>", picture.read_text())
    taken = {p.name for p in info.layer_parameters or []}
    options = {
        k: v
        for k, v in {**OPTIONS, **OWN_OPTIONS.get(entry.alias, {})}.items()
        if k in taken and v is not None
    }
    shown = ", ".join(f"`{name}={value!r}`" for name, value in options.items())
    texts = [f"{title[1]}." if title else ""]
    if shown:
        texts.append(f"Parameters: {shown}.")
    if entry.traits["loss"]:
        texts.append(f"The pooler was trained on its own losses for {STEPS} steps.")
    elif entry.traits["trainable"]:
        texts.append("The weights are random: training decides which nodes are chosen.")
    return " ".join(texts)


def _arguments(entry: Entry, info: PoolerInfo) -> str:
    """Return the arguments of ``get_pooler`` in the example."""
    words = [f'"{entry.alias}"']
    for parameter in info.layer_parameters or []:
        if parameter.required:
            words.append(f"{parameter.name}={_example_value(parameter)}")
    return ", ".join([*words, *([EXTRA[entry.alias]] if entry.alias in EXTRA else [])])


def _example_value(parameter: ParameterInfo) -> str:
    """Return a value for a required parameter: by its name, its first choice, or by its type."""
    if parameter.name in EXAMPLE:
        return EXAMPLE[parameter.name]
    if parameter.choices and parameter.type != "bool":
        return repr(parameter.choices[0])
    return EXAMPLE_TYPES.get(parameter.type, "...")


def _example(entry: Entry, info: PoolerInfo) -> str:
    """Return the sections with code: the layer, and the command if the pooler can be precomputed."""
    loss = (
        "loss = sum(out.get_loss_value())  # add it to the loss of the task\n" if entry.traits["loss"] else ""
    )
    needs = METHODS[entry.alias].needs if entry.alias in METHODS else ()
    pos = "pos = torch.rand(6, 2)  # positions\n" if "pos" in needs else ""
    text = (
        "\n## Example\n\n"
        "```python\nimport torch\n\nfrom tgp.poolers import get_pooler\n\n"
        "x = torch.randn(6, 8)  # a ring of six nodes\n"
        "edge_index = torch.tensor(\n    [\n"
        "        [0, 1, 2, 3, 4, 5, 1, 2, 3, 4, 5, 0],\n        [1, 2, 3, 4, 5, 0, 0, 1, 2, 3, 4, 5],\n"
        "    ]\n)\n"
        f"{pos}pooler = get_pooler({_arguments(entry, info)})\n"
        f"out = pooler(x=x, adj=edge_index{', pos=pos' if pos else ''})\n{loss}"
        "print(out.x.shape, out.so)\n```\n"
    )
    if not entry.traits["precoarsenable"]:
        return text
    sizes = "k" in {p.name for p in info.parameters or []}
    schedule = f"{entry.alias}:k=8,{entry.alias}:k=4" if sizes else f"{entry.alias}*2"
    schedule = SCHEDULES.get(entry.alias, schedule)
    return text + (
        "\nComputed once, before training, on the command line or in Python:\n\n"
        f"```bash\ntgp coarsen --pooler '{schedule}'{' --dataset points' if pos else ''} --out pooled/{entry.alias}\n```\n\n"
        f'```python\nimport tgp\n\ndataset = tgp.coarsen("{"points" if pos else "molecules"}", "{schedule}", out="pooled/{entry.alias}")\n'
        "print(dataset[0].pooled_data)  # level 1, level 2\n```\n"
    )


def _parameters(entry: Entry, info: PoolerInfo) -> str:
    text = ""
    if info.parameters:
        one = info.parameters[0]
        value = f"{one.default}".lower() if one.default is not None else "8"
        text += f"\n## Parameters of a level\n\nIn a schedule, such as `{entry.alias}:{one.name}={value}`.\n\n{_table(info.parameters, _schedule_text)}"
    if info.layer_parameters:
        text += f'\n## Parameters of the layer\n\nOf `get_pooler("{entry.alias}", ...)`.\n\n{_table(info.layer_parameters, str)}'
    return text or "\n## Parameters\n\nThere are none.\n"


def _schedule_text(value: object) -> str:
    """Return a value as a schedule writes it."""
    if isinstance(value, tuple):
        return "/".join(map(str, value))
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def _table(parameters: list[ParameterInfo], write: Callable[[object], str]) -> str:
    rows = [
        '<div class="parameters" markdown="1">\n\n',
        "| parameter | type or choices | default | meaning |\n|---|---|---|---|\n",
    ]
    for p in parameters:
        choices = ", ".join(f"`{choice}`" for choice in p.choices)
        kind = "bool" if p.type == "bool" else choices or p.type.replace(", ", " or ")
        value = write(p.default)
        default = "required" if p.required else f"`{value}`" if value else "none"
        rows.append(f"| `{p.name}` | {_cell(kind)} | {_cell(default)} | {_cell(p.description)} |\n")
    return "".join([*rows, "\n</div>\n"])


def nav_lines() -> str:
    """Return the lines of mkdocs.yml that list the pages of the poolers."""
    names = sorted(entry.alias for entry in pooler_entries())
    rows = [f"          - {name}: reference/poolers/{name}.md\n" for name in names]
    return "".join(["          - All poolers: reference/poolers.md\n", *rows])
