"""Combine the tables of the experiments in docs/results.md.

python examples/paper/report.py
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from _harness import RESULTS, replace

PAGE = Path(__file__).resolve().parents[2] / "docs" / "results.md"
ORDER = ("clustering", "graph_classification", "node_classification", "efficiency", "dense_modes")
INTRO = """\
# The experiments of the paper, repeated

Each section repeats one table or figure of the article that describes the library (tgp 1.0.2, on a GPU), with this library, on one core of a
shared machine without a GPU. The tables contain the value of the paper and our value, both as mean ± standard deviation over runs. The
difference is given in standard deviations of the paper. If the training of the paper is too long for a processor, the reduced budget is
stated. Seconds per run are processor time. `DATA` is a folder of raw files in the layout of PyTorch Geometric.

This page is generated from `examples/paper/results` by `python examples/paper/report.py`.
"""


def section(name: str, folder: Path) -> str:
    """Return facts, table and discussion of an experiment; empty if it has not been run."""
    results, table = folder / f"{name}.json", folder / f"{name}.md"
    if not results.exists() or not table.exists():
        return ""
    about = json.loads(results.read_text(encoding="utf-8"))["about"]
    facts = [
        f"- **{key.capitalize()}:** {text}." for key, text in about.items() if key not in ("title", "command")
    ]
    notes = folder / f"{name}.notes.md"
    parts = [
        f"## {about.get('title', name)}",
        f"```bash\n{about['command']}\n```" if "command" in about else "",
        "\n".join(facts),
        table.read_text(encoding="utf-8").strip(),
        notes.read_text(encoding="utf-8").strip() if notes.exists() else "",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def page(folder: Path) -> str:
    """Return the page: known experiments in the order of the paper, then all others."""
    others = sorted(path.stem for path in folder.glob("*.json") if path.stem not in ORDER)
    return "\n".join([INTRO, *filter(None, (section(name, folder) for name in (*ORDER, *others)))])


def main(argv: Sequence[str] | None = None) -> Path:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the results")
    parser.add_argument("--page", type=Path, default=PAGE, help="file to write")
    options = parser.parse_args(argv)
    replace(options.page, page(options.results))
    return options.page


if __name__ == "__main__":
    main()
