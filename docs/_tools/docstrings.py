"""Extension of griffe that converts docstrings with RST roles and directives to Markdown."""

from __future__ import annotations

import sys
from pathlib import Path

import griffe

sys.path.insert(0, str(Path(__file__).parent))  # mkdocs loads this file by its path, not as part of a package

from rst import to_markdown


class Docstrings(griffe.Extension):
    """Extension that converts every docstring before it is parsed."""

    def on_instance(self, *, obj: griffe.Object, **_: object) -> None:
        if obj.docstring is not None:
            obj.docstring.value = to_markdown(obj.docstring.value)
