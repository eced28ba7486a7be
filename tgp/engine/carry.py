"""Rules for attributes of levels: which attribute is carried, and by which reduction.

The rules of a run are resolved once, against all input graphs, into a list of steps. A step is plain data and describes one
attribute of the levels. :func:`tgp.engine.carry_fields.carry_fields` computes them, also for a part of the graphs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from tgp.engine.carry_attributes import Attribute, Owner, describe_attributes
from tgp.errors import InputError, ParameterError, UnknownNameError
from tgp.ragged import GraphTable

__all__ = [
    "MAP",
    "REDUCTIONS",
    "CarryLike",
    "CarryRules",
    "CarryStep",
    "Reduction",
    "input_names",
    "is_label",
    "resolve",
    "resolve_attributes",
]

Reduction = Literal["sum", "mean", "max", "min", "majority", "any", "all", "first", "stats", "none"]

REDUCTIONS: tuple[str, ...] = get_args(Reduction)

_EVERY = "*"
"""Name in a mapping that stands for all attributes without a rule of their own: ``{"*": "auto"}``."""

_FITTING: dict[str, tuple[str, ...]] = {
    "bool": REDUCTIONS,
    "int": REDUCTIONS,
    "float": ("sum", "mean", "max", "min", "majority", "first", "stats", "none"),
    "text": ("majority", "first", "none"),
    "other": ("first", "none"),
}
"""Reductions of each kind of values."""

MAP = "map"
"""Rule of ``edge_index`` that gives levels the attribute ``edge_map``."""

_OWN = frozenset(
    {"edge_index", "edge_map", "edge_weight", "batch", "ptr", "mask", "so", "num_nodes", "num_members"}
)
"""Attributes that levels have by themselves."""


@dataclass(frozen=True)
class CarryRules:
    """Rules for the attributes of levels. Without any rule nothing is carried, and the rules are false in a condition.

    Args:
        auto: Choose a reduction by name and kind for attributes without a rule.
        reductions: Pairs of an attribute and its reduction, sorted by name.

    Examples:
        >>> str(CarryRules.parse("y=majority,pos=mean,auto"))
        'auto,pos=mean,y=majority'
        >>> CarryRules.parse({"pos": "mean"}).reductions
        (('pos', 'mean'),)
    """

    auto: bool = False
    reductions: tuple[tuple[str, str], ...] = ()

    @classmethod
    def parse(cls, value: CarryLike) -> CarryRules:
        """Read rules.

        Args:
            value: ``None``; text such as ``"auto"``, ``"pos=mean,y=majority"``, ``"auto,pos=none"`` or ``"none"``; a
                mapping from attributes to reductions, in which ``{"*": "auto"}`` stands for ``auto``; or rules. The rule
                ``edge_index=map`` gives levels the coarse edge of each edge of the graph before, as ``edge_map``.

        Raises:
            UnknownNameError: If a reduction does not exist.
            ParameterError: If the value cannot be read.
        """
        if isinstance(value, CarryRules):
            return value
        if value is None:
            return cls()
        if isinstance(value, str):
            pairs = list(_split_text(value))
        elif isinstance(value, Mapping):
            pairs = [_check_pair(name, reduction) for name, reduction in value.items()]
        else:
            raise ParameterError(
                f"carry has the wrong type: expected text or a mapping, got {type(value).__name__}",
                field="carry",
            )
        names = [name for name, _ in pairs]
        for name in names:
            if names.count(name) > 1:
                raise ParameterError(f"carry has several rules for {name!r}: expected one", field="carry")
        rules = tuple(sorted(pair for pair in pairs if pair[0] != _EVERY))
        return cls((_EVERY, "auto") in pairs, rules)

    def __bool__(self) -> bool:
        return self.auto or bool(self.reductions)

    def __str__(self) -> str:
        parts = ["auto"] * self.auto + [f"{name}={reduction}" for name, reduction in self.reductions]
        return ",".join(parts) or "none"


CarryLike = CarryRules | str | Mapping[str, str] | None
"""Values that :meth:`CarryRules.parse` reads."""


def _split_text(text: str) -> Iterator[tuple[str, str]]:
    if text.strip() in ("", "none"):
        return
    for part in text.split(","):
        item = part.strip()
        name, equals, reduction = (piece.strip() for piece in item.partition("="))
        if item == "auto":
            yield _EVERY, "auto"
        elif not equals or not name:
            raise ParameterError(
                f"carry cannot be read: expected 'auto' or attribute=reduction, got {item!r} in {text!r}",
                field="carry",
                hint=f"write {item or 'x'}=mean, or another of {', '.join(REDUCTIONS)}",
            )
        else:
            yield _check_pair(name, reduction)


def _check_pair(name: object, reduction: object) -> tuple[str, str]:
    if not isinstance(name, str) or not name or set(name) & set(",=") or name != name.strip():
        raise ParameterError(
            f"carry has a wrong attribute: expected a name without commas, equals signs and outer blanks, got {name!r}",
            field="carry",
        )
    valid = ("auto",) if name == _EVERY else (*REDUCTIONS, *([MAP] if name == "edge_index" else []))
    if not isinstance(reduction, str) or reduction not in valid:
        raise UnknownNameError("reduction", str(reduction), valid)
    return name, reduction


@dataclass(frozen=True)
class CarryStep:
    """One attribute of the levels. All values are plain, so that a step can be stored as JSON.

    Args:
        name: Name of the attribute.
        reduction: A :data:`Reduction` other than ``none``, or ``count`` (members), ``purity`` (share of the members with
            the majority value), ``mixed`` (True if the members have several values) or ``map`` (coarse edge of each edge of
            the graph before).
        owner: ``node`` or ``edge``.
        source: Attribute of the input graphs that is reduced; the same name if ``None``.
        mask: Boolean attribute of the nodes that selects the members that count; all if ``None``.
    """

    name: str
    reduction: str
    owner: Owner = "node"
    source: str | None = None
    mask: str | None = None

    @property
    def input_name(self) -> str:
        """Attribute of the input graphs that is reduced."""
        return self.name if self.source is None else self.source

    def to_json(self) -> dict[str, str]:
        """Return the step as a JSON object. ``CarryStep(**value)`` reads it."""
        return {key: value for key, value in dataclasses.asdict(self).items() if value is not None}


def input_names(steps: Iterable[CarryStep]) -> list[str]:
    """Return the attributes of the input graphs that some steps need, without duplicates.

    Args:
        steps: Attributes of the levels.

    Examples:
        >>> input_names([CarryStep("num_members", "count"), CarryStep("y_purity", "purity", source="y")])
        ['y']
    """
    steps = list(steps)
    names = [step.input_name for step in steps if step.reduction != "count"]
    names += [step.mask for step in steps if step.mask is not None]
    if any(step.owner == "edge" for step in steps):
        names.append("edge_index")
    return list(dict.fromkeys(names))


def is_label(name: str) -> bool:
    """Return True if an attribute of this name holds labels.

    Args:
        name: Name of the attribute.

    Examples:
        >>> is_label("y"), is_label("node_label"), is_label("x")
        (True, True, False)
    """
    return name == "y" or "label" in name


def resolve(rules: CarryRules, table: GraphTable) -> tuple[CarryStep, ...]:
    """Return the attributes of the levels of some graphs. Call it with all graphs, before anything is computed.

    Args:
        rules: Rules.
        table: Input graphs.

    Returns:
        The steps in the order of the attributes, after ``num_members``. Nothing without rules.

    Raises:
        UnknownNameError: If an attribute does not exist.
        InputError: If an attribute belongs to the graph, holds node ids, has a wrong number of rows, has labels that are not
            a number, or if a reduction does not fit its values.
    """
    texts = [name for name, _ in rules.reductions]
    steps = resolve_attributes(rules, describe_attributes(table, texts)) if rules else ()
    for step in steps:
        if step.reduction != "majority":
            continue
        values = table.fields[step.input_name].values
        if values.dtype.kind == "f" and np.isnan(values).any():
            raise InputError(
                f"{step.input_name!r} cannot be reduced by majority: expected numbers, got NaN in row "
                f"{int(np.isnan(values).reshape(len(values), -1).any(axis=1).argmax())}",
                field=step.input_name,
                hint="replace the missing values, or choose first, max or mean",
            )
    return steps


def resolve_attributes(rules: CarryRules, attributes: Mapping[str, Attribute]) -> tuple[CarryStep, ...]:
    """Return the attributes of the levels from facts about the attributes of the input graphs; see :func:`resolve`.

    Args:
        rules: Rules.
        attributes: Facts about each attribute, in the order of the graphs.
    """
    if not rules:
        return ()
    chosen = dict(rules.reductions)
    for name, reduction in chosen.items():
        if name not in attributes:
            raise UnknownNameError("attribute", name, attributes)
        if reduction not in ("none", MAP):
            _check_rule(name, reduction, attributes[name])
    steps = [CarryStep("num_members", "count")]
    for name, attribute in attributes.items():
        reduction = chosen.get(name) or (_choose(name, attribute) if rules.auto else "none")
        if reduction == "none":
            continue
        if reduction == MAP:
            steps.append(CarryStep("edge_map", MAP, "edge", name))
            continue
        steps.append(CarryStep(name, reduction, attribute.owner))
        if reduction == "majority" and is_label(name):
            steps += _label_steps(name, attributes)
    derived = {step.name for step in steps if step.source is not None}
    if derived & chosen.keys():
        name = min(derived & chosen.keys())
        raise InputError(
            f"{name!r} cannot be carried: expected another name, because levels have a computed attribute {name!r}",
            field=name,
        )
    return tuple(step for step in steps if step.source is not None or step.name not in derived)


def _label_steps(name: str, attributes: Mapping[str, Attribute]) -> Iterator[CarryStep]:
    """Yield the attributes of levels that accompany the majority of a label."""
    owner = attributes[name].owner
    yield CarryStep(f"{name}_purity", "purity", owner, name)
    mask = attributes.get("train_mask")
    if mask is not None and (owner, mask.owner, mask.kind, mask.ndim) == ("node", "node", "bool", 1):
        yield CarryStep(f"{name}_train", "majority", owner, name, "train_mask")
        yield CarryStep(f"{name}_mixed", "mixed", owner, name, "train_mask")


def _choose(name: str, attribute: Attribute) -> str:
    """Return the reduction that ``auto`` chooses for an attribute."""
    if attribute.owner == "graph" and attribute.kind == "bool" and "mask" in name and attribute.rows:
        _check_rule(name, "any", attribute)
    if attribute.owner == "graph" or attribute.ids or name in _OWN or attribute.kind in ("text", "other"):
        return "none"
    if is_label(name):
        if attribute.ambiguous:
            return "none"
        return "mean" if attribute.kind == "float" else "majority"
    if name in ("x", "pos", "edge_attr"):
        return "mean"
    return {"bool": "any", "int": "majority", "float": "mean"}[attribute.kind]


def _check_rule(name: str, reduction: str, attribute: Attribute) -> None:
    if name in _OWN:
        raise InputError(
            f"{name!r} cannot be carried: levels have their own",
            field=name,
            hint="edge weights are pooled by the parameter connect_red_op of the method"
            if "edge" in name
            else None,
        )
    if attribute.ids:
        raise InputError(
            f"{name!r} cannot be carried: it holds ids, which have no meaning on levels", field=name
        )
    if attribute.owner == "graph":
        raise InputError(
            f"{name!r} cannot be carried: expected one row per node or edge, got {attribute.rows or 'one value per graph'}",
            field=name,
            hint=f"leave it out with {name}=none: attributes of the graph are not changed",
        )
    if reduction not in _FITTING[attribute.kind]:
        raise ParameterError(
            f"{name!r} cannot be reduced by {reduction}: expected one of {', '.join(_FITTING[attribute.kind])} for "
            f"{'complex' if attribute.kind == 'other' else attribute.kind} values",
            field=name,
        )
