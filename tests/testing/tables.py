"""Write the generated tables into the guide on tests.

python -m tests.testing.tables
"""

import re
from pathlib import Path

from tests.testing import sabotage
from tgp.testing.checks import CHECKS
from tgp.testing.methods import METHOD_CHECKS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guide" / "testing.md"


def requirement(check):
    """Return the docstring of a check as one line of Markdown, without the words "Check that"."""
    text = " ".join(check.__doc__.split()).replace("``", "`").removeprefix("Check ").removeprefix("that ")
    text = text.replace(", and that ", ", and ")
    return text[0].upper() + text[1:]


def check_table(checks):
    """Return a table of checks and their requirements."""
    lines = ["| Check | Requirement |", "|---|---|"]
    lines += [f"| `{name}` | {requirement(function)} |" for name, function in checks.items()]
    return "\n".join(lines) + "\n"


TABLES = {
    "checks": lambda: check_table(CHECKS),
    "methods": lambda: check_table(METHOD_CHECKS),
    "sabotage": lambda: sabotage.table().replace("``", "`"),
}


def filled(text):
    """Return the page with up-to-date tables."""
    for name, table in TABLES.items():
        pattern = re.compile(rf"(<!-- {name}: [^>]*-->\n).*?(<!-- end -->)", flags=re.S)
        text, count = pattern.subn(lambda found, table=table: f"{found[1]}\n{table()}\n{found[2]}", text)
        assert count == 1, f"the page needs one place for {name}"
    return text


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text()))
