"""Write the generated tables into the guide on tests.

python -m tests.testing.tables
"""

import re
from pathlib import Path

from tests.testing import sabotage
from tgp.testing.checks import CHECKS
from tgp.testing.methods import METHOD_CHECKS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guide" / "testing.md"


def plain(text):
    """Return a docstring as one line of markdown."""
    return " ".join(text.split()).replace("``", "`")


def check_table(checks):
    """Return a table of checks and what they require."""
    lines = ["| Check | Requirement |", "|---|---|"]
    lines += [f"| `{name}` | {plain(function.__doc__)} |" for name, function in checks.items()]
    return "\n".join(lines) + "\n"


TABLES = {
    "checks": lambda: check_table(CHECKS),
    "methods": lambda: check_table(METHOD_CHECKS),
    "sabotage": lambda: sabotage.table().replace("``", "`"),
}


def filled(text):
    """Return the page with the tables of this moment."""
    for name, table in TABLES.items():
        pattern = re.compile(rf"(<!-- {name}: [^>]*-->\n).*?(<!-- end -->)", flags=re.S)
        text, count = pattern.subn(lambda found, table=table: f"{found[1]}\n{table()}\n{found[2]}", text)
        assert count == 1, f"the page needs one place for {name}"
    return text


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text()))
