"""Make links of the README absolute, for package indexes. All other settings are in ``pyproject.toml``."""

import re
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).resolve().parent
FILE = r"(?P<path>(?!\w+:)[\w./-]+\.(?P<kind>md|cff|svg|png)(?:#[\w-]+)?)"
PLACES = {
    "page": "https://github.com/tgp-coarsen/tgp/blob/v{}/{}",
    "picture": "https://raw.githubusercontent.com/tgp-coarsen/tgp/v{}/{}",
}


def absolute_links(text: str, version: str) -> str:
    """Return Markdown whose links to files of the repository are addresses of this version."""

    def address(match: "re.Match[str]") -> str:
        kind = "picture" if match["kind"] in ("svg", "png") else "page"
        return f"]({PLACES[kind].format(version, match['path'])})"

    return re.sub(rf"\]\({FILE}\)", address, text)


if __name__ == "__main__":
    found = re.search(r'__version__ = "(.*)"', (ROOT / "tgp" / "_version.py").read_text(encoding="utf-8"))
    setup(
        long_description=absolute_links(
            (ROOT / "README.md").read_text(encoding="utf-8"), found[1] if found else ""
        ),
        long_description_content_type="text/markdown",
    )
