"""Tables of ``install.md`` and ``reliability.md``, made from the results of ``tests/release`` and ``tests/reliability``."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

WAYS = {
    "wheel": "wheel",
    "sdist": "sdist",
    "clone": "`pip install .` in a clone",
    "editable": "`pip install -e .` in a clone",
    "lowest": "wheel with the lowest versions",
    "image": "steps of the Docker image",
}
"""Texts for the ways to install, see ``tests/release/matrix.py``."""

STEPS = ("first hierarchy", "demo", "README", "examples, notebooks")


def _seconds(cell: dict[str, Any], step: str) -> str:
    found = cell["steps"].get(step)
    if found is None:
        return ""
    tests = re.search(r"(\d+) passed", found["last"])
    return f"{found['seconds']:.0f}" + (f" ({tests[1]} tests)" if tests else "")


def installations() -> str:
    """Return the table of tested installations."""
    from tests.release.matrix import default_cells

    found = json.loads((ROOT / "tests" / "release" / "results.json").read_text())
    wheel, sdist = found["build"]["wheel"], found["build"]["sdist"]
    lines = [
        f"The wheel has {wheel['bytes'] / 1e6:.2f} MB and {wheel['files']} files, the sdist {sdist['bytes'] / 1e6:.2f} MB. "
        "Both pass `twine check --strict`. The wheel contains the committed files of the two packages and no others.",
        "",
        "| installed from | Python | torch, numpy, numba, h5py | install | " + " | ".join(STEPS) + " |",
        "|---|---|---|--:|" + "--:|" * len(STEPS),
    ]
    reasons = []
    for name in default_cells():
        cell = found["cells"].get(name, {"outcome": "not run", "reason": "not tried"})
        way, _, version = name.rpartition("-")
        if cell["outcome"] != "passed":
            lines.append(f"| {WAYS[way]} | {version} | {cell['outcome']} |" + " |" * (1 + len(STEPS)))
            reason = ": ".join(cell["reason"].splitlines()[:2]).replace("`", "'")
            reasons.append(f"- {WAYS[way]}, Python {version}, {cell['outcome']}: `{reason}`")
            continue
        versions = ", ".join(
            cell["versions"][part].partition("+")[0] for part in ("torch", "numpy", "numba", "h5py")
        )
        times = " | ".join(_seconds(cell, step) for step in STEPS)
        lines.append(f"| {WAYS[way]} | {cell['python']} | {versions} | {cell['install seconds']} | {times} |")
    dates = sorted({cell["date"] for cell in found["cells"].values() if "date" in cell})
    lines += ["", f"Measured {' to '.join(sorted({dates[0], dates[-1]}))}, in seconds."]
    passed = [cell for cell in found["cells"].values() if cell["outcome"] == "passed"]
    if older := sum(cell["package"] != found["build"]["package"] for cell in passed):
        lines[-1] += f" {older} of {len(passed)} rows belong to earlier commits."
    return "\n".join([*lines, "", *reasons] if reasons else lines) + "\n"


def reliability() -> str:
    """Return the table of all figures of the long run."""
    from tests.reliability.run import PARTS, RESULTS, Results

    results = Results(RESULTS)
    lines = ["| Figure | Cases | Wrong | Seconds | |", "|---|--:|--:|--:|---|"]
    dates = set()
    for name, part in PARTS.items():
        entries = results.parts.get(name, {})
        dates |= {entry["date"] for entry in entries.values()}
        for figure, seconds in results.totals(name):
            title = figure.name[0].upper() + figure.name[1:]
            lines.append(
                f"| {title} | {figure.count:,} | {len(figure.problems)} | {seconds:,.0f} | {figure.remark()} |"
            )
        if len(entries) < part.portions:
            lines.append(f"| *{name}: {len(entries)} of {part.portions} portions were run* | | | | |")
    versions = json.loads(RESULTS.read_text())["versions"]
    shown = ", ".join(f"{name} {version}" for name, version in versions.items())
    lines += ["", f"Measured {' to '.join(sorted({min(dates), max(dates)}))} with {shown}."]
    return "\n".join(lines) + "\n"


TABLES = {"install.md": ("installations", installations), "reliability.md": ("long run", reliability)}
"""Name of the markers and function of the table, by page."""
