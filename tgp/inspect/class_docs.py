"""Read the parameters and the docstring of a class from its source, without importing it.

Importing a trainable pooler imports torch. Its source says the same: the signature of the constructor, the types, and
the docstring in the Google format.
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

__all__ = [
    "ClassDocs",
    "Docstring",
    "ParameterInfo",
    "parse_docstring",
    "listed",
    "plain_text",
    "read_class",
    "read_module_docstring",
    "sentence",
]

_SECTION = re.compile(r"([A-Z][A-Za-z ]*):")
_REFERENCE = re.compile(r":class:`~?([\w.]+)`")
_ROLE = re.compile(r":(?:class|meth|func|mod|attr|data):`(~?)([\w.]+)`")
_PAPER = re.compile(r'`"([^"]+)"\s+<([^>\s]+)>`_')
_GREEK = {
    "alpha": "α",
    "beta": "β",
    "sigma": "σ",
    "mu": "μ",
    "eta": "η",
    "delta": "δ",
    "theta": "θ",
    "top": "ᵀ",
}
_MAX_LINKS = 8
"""Largest number of imports or references to follow. Two classes may refer to each other."""


@dataclass(frozen=True)
class ParameterInfo:
    """A parameter of a level method or of a layer.

    Args:
        name: name of the parameter.
        default: default value; ``None`` if the parameter is required, source text if it is not a literal.
        required: True if there is no default.
        type: types or choices, in the form in which users write values.
        choices: all possible values as text; empty if they cannot be listed.
        description: one or a few sentences; empty if the docstring has none.
    """

    name: str
    default: Any
    required: bool
    type: str
    choices: tuple[str, ...] = ()
    description: str = ""


@dataclass(frozen=True)
class Docstring:
    """A docstring in the Google format.

    Args:
        text: the paragraphs before the first section.
        sections: title in lower case -> text of the section.
    """

    text: str = ""
    sections: dict[str, str] = field(default_factory=dict)

    @property
    def arguments(self) -> dict[str, str]:
        """Description of each argument, on one line. Arguments that are described together have the same text."""
        entries: list[str] = []
        for line in self.sections.get("args", "").splitlines():
            if line[:1].isspace() and entries:
                entries[-1] += " " + line.strip()
            elif line.strip():
                entries.append(line.strip())
        pairs = (entry.partition(":") for entry in entries)
        return {name.strip(" *"): text.strip() for names, _, text in pairs for name in names.split(",")}

    @property
    def papers(self) -> list[tuple[str, str]]:
        """Title and address of each paper that the text links to."""
        return [(" ".join(title.split()), url) for title, url in _PAPER.findall(self.text)]


def parse_docstring(text: str | None) -> Docstring:
    """Split a docstring into its text and its sections.

    Args:
        text: the docstring; ``None`` if there is none.

    Examples:
        >>> parse_docstring("Do it.\\n\\nArgs:\\n    a, b: numbers.\\n").arguments
        {'a': 'numbers.', 'b': 'numbers.'}
    """
    head: list[str] = []
    sections: dict[str, list[str]] = {}
    current = head
    for line in inspect.cleandoc(text or "").splitlines():
        title = _SECTION.fullmatch(line)
        if title:
            current = sections.setdefault(title[1].lower(), [])
        else:
            current.append(line)
    return Docstring(
        "\n".join(head).strip(),
        {name: inspect.cleandoc("\n".join(["", *body])) for name, body in sections.items()},
    )


def plain_text(text: str) -> str:
    """Return a text of a docstring on one line, with Sphinx roles as names in backquotes and formulas as letters.

    Examples:
        >>> plain_text("weight :math:`\\\\alpha` of ``S``, see :class:`~tgp.select.SelectOutput`")
        'weight α of `S`, see `SelectOutput`'
    """
    text = _ROLE.sub(lambda m: f"`{m[2].rpartition('.')[2] if m[1] else m[2]}`", text)
    text = re.sub(r":math:`([^`]*)`", lambda m: _plain_formula(m[1]), text)
    return " ".join(text.replace("``", "`").split())


def sentence(text: str) -> str:
    """Return :func:`plain_text` of a description, with a capital letter at the start and a full stop.

    Examples:
        >>> sentence("number of ``k``")
        'Number of `k`.'
    """
    text = plain_text(text)
    return text[:1].upper() + text[1:] + ("." if text and text[-1] not in ".!?" else "")


def _plain_formula(formula: str) -> str:
    formula = re.sub(r"\\(?:mathbf|mathrm|text)\{([^}]*)\}", r"\1", formula)
    formula = re.sub(r"\\sqrt\{([^}]*)\}", r"sqrt(\1)", formula).replace("^2", "²").replace("^\\top", "ᵀ")
    return re.sub(r"\\([A-Za-z]+)", lambda m: _GREEK.get(m[1], m[1]), formula)


@dataclass(frozen=True)
class ClassDocs:
    """The source of a class, as far as users see it.

    Args:
        name: name of the class.
        docstring: docstring of the class.
        arguments: arguments of its constructor, without ``self`` and ``**kwargs``.
    """

    name: str
    docstring: Docstring
    arguments: list[ParameterInfo]


def read_class(target: str) -> ClassDocs | None:
    """Read a class from its source.

    Args:
        target: ``"package.module:Class"``. The packages that contain the module are imported, the module is not.

    Returns:
        The class, or ``None`` if there is no readable source of it.
    """
    module, _, name = target.partition(":")
    place, node = _find(module, name) or (module, None)
    if not isinstance(node, ast.ClassDef):
        return None
    arguments: list[ParameterInfo] = []
    for base_place, base in _with_bases(place, node):
        init = next((n for n in base.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"), None)
        if init is not None:
            arguments = [_argument(base_place, a, d, (place, node)) for a, d in _signature(init.args)]
            break
    return ClassDocs(node.name, parse_docstring(ast.get_docstring(node)), arguments)


def read_module_docstring(module: str) -> Docstring:
    """Read the docstring of a module from its source, without importing it.

    Args:
        module: ``"package.module"``.

    Returns:
        The docstring; an empty one if there is no source.
    """
    tree = _parse(module)
    return parse_docstring(None if tree is None else ast.get_docstring(tree))


_Found = tuple[str, ast.AST]
"""Name of a module, and a statement in it."""


@lru_cache(maxsize=256)
def _parse(module: str) -> ast.Module | None:
    try:
        spec = importlib.util.find_spec(module)
        if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
            return None
        with open(spec.origin, "rb") as file:
            return ast.parse(file.read())
    except (ImportError, OSError, SyntaxError, ValueError, AttributeError):
        return None


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of a module, also those under ``if TYPE_CHECKING:``."""
    for node in body:
        yield node
        if isinstance(node, ast.If):
            yield from _statements(node.body)


def _find(module: str, name: str, links: int = 0) -> _Found | None:
    """Return the class or the assignment that defines ``name``, following imports of the same package and of tgp."""
    tree = _parse(module)
    if tree is None or links > _MAX_LINKS:
        return None
    for node in _statements(tree.body):
        if isinstance(node, ast.ClassDef) and node.name == name:
            return module, node
        if isinstance(node, ast.Assign) and [ast.unparse(t) for t in node.targets] == [name]:
            return module, node.value
        if isinstance(node, ast.ImportFrom) and not node.level and _is_followed(node.module, module):
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    return _find(str(node.module), alias.name, links + 1)
    return None


def _is_followed(imported: str | None, module: str) -> bool:
    """Return True if an import in ``module`` is followed. Finding a submodule of torch would import torch."""
    return str(imported).partition(".")[0] in (module.partition(".")[0], "tgp")


def _with_bases(module: str, node: ast.ClassDef, links: int = 0) -> Iterator[tuple[str, ast.ClassDef]]:
    """Yield a class and its base classes, nearest first."""
    yield module, node
    for base in node.bases:
        found = _find(module, base.id) if isinstance(base, ast.Name) else None
        if found is not None and isinstance(found[1], ast.ClassDef) and links < _MAX_LINKS:
            yield from _with_bases(found[0], found[1], links + 1)


def _signature(arguments: ast.arguments) -> Iterator[tuple[ast.arg, ast.expr | None]]:
    """Yield the arguments with their defaults, without the first one (``self``)."""
    positional = [*arguments.posonlyargs, *arguments.args]
    missing = [None] * (len(positional) - len(arguments.defaults))
    yield from list(zip(positional, [*missing, *arguments.defaults], strict=True))[1:]
    yield from zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)


def _argument(
    module: str, arg: ast.arg, default: ast.expr | None, owner: tuple[str, ast.ClassDef]
) -> ParameterInfo:
    types, choices = _types(module, arg.annotation)
    value = None
    if default is not None:
        try:
            value = ast.literal_eval(default)
        except ValueError:
            value = ast.unparse(default)
    described = sentence(_describe(*owner, arg.arg))
    return ParameterInfo(arg.arg, value, default is None, ", ".join(types), listed(types, choices), described)


def listed(types: tuple[str, ...], choices: tuple[str, ...]) -> tuple[str, ...]:
    """Return the choices of a parameter if they are all of its possible values, else nothing.

    Examples:
        >>> listed(("bool",), ("true", "false")), listed(("int", "none"), ("none",))
        (('true', 'false'), ())
    """
    return choices if set(types) <= {*choices, "bool"} else ()


def _types(module: str, hint: ast.AST | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the types of an annotation as text, and the values that can be listed."""
    if hint is None:
        return ("any",), ()
    if isinstance(hint, ast.BinOp):
        left, right = _types(module, hint.left), _types(module, hint.right)
        return left[0] + right[0], left[1] + right[1]
    if isinstance(hint, ast.Constant):
        if hint.value is None:
            return ("none",), ("none",)
        return _types(module, ast.parse(str(hint.value), mode="eval").body)
    if isinstance(hint, ast.Subscript):
        return _generic(module, ast.unparse(hint.value), hint.slice)
    name = ast.unparse(hint)
    found = _find(module, name)
    if found is not None and not isinstance(found[1], ast.ClassDef):
        return _types(*found)
    if name == "bool":
        return ("bool",), ("true", "false")
    return ({"type": "class", "Any": "any"}.get(name, name),), ()


def _generic(module: str, name: str, inner: ast.expr) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the types of ``name[inner]``."""
    if name == "Literal":
        values = ast.literal_eval(inner)
        texts = tuple(map(str, values if isinstance(values, tuple) else (values,)))
        return texts, texts
    if name == "Callable":
        return ("function",), ()
    if name in ("Sequence", "list"):
        return ("list of " + " or ".join(_types(module, inner)[0]),), ()
    return (ast.unparse(ast.Subscript(ast.Name(name), inner)),), ()


def _describe(module: str, node: ast.ClassDef, name: str, links: int = 0) -> str:
    """Return the description of an argument: of the class itself, of a class that it refers to, or of a base class."""
    if links > _MAX_LINKS:
        return ""
    text = parse_docstring(ast.get_docstring(node)).arguments.get(name, "")
    if text and not re.match(r"[Ss]ee(?: :class:| above)", text):
        return text
    targets = [path.rpartition(".") for path in _REFERENCE.findall(text)]
    found = [_find(where or module, cls) for where, _, cls in targets]
    found += [_find(module, base.id) for base in node.bases if isinstance(base, ast.Name)]
    for other in found:
        if other is not None and isinstance(other[1], ast.ClassDef):
            described = _describe(other[0], other[1], name, links + 1)
            if described:
                return described
    return ""
