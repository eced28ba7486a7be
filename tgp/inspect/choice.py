"""Choose a pooler: facts about each pooler, and rules that compare them with what a user needs.

Costs are times of one level relative to ``graclus`` (methods that are precomputed) or of one training step relative to
``topk`` (layers), from the tables of the performance page. Sizes are those of the largest graph that a level of about a
minute on one core, or a training step in a few gigabytes, can handle.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from tgp.errors import InputError
from tgp.inspect.catalog import describe_pooler, list_poolers

__all__ = [
    "BASELINES",
    "FACTS",
    "RULES",
    "Choice",
    "Facts",
    "Needs",
    "Rule",
    "choose_poolers",
    "left_out",
    "supernodes_text",
]

Supernodes = Literal["k", "ratio", "half", "graph"]

_SUPERNODES: dict[Supernodes, str] = {
    "k": "exactly k supernodes per graph",
    "ratio": "a chosen share of the nodes remains",
    "half": "about half of the nodes remain",
    "graph": "the graph decides how many nodes remain",
}


MOST_PADDED = 10**4
"""Number of nodes above which a dense pooler should not pad graphs."""


class Facts(NamedTuple):
    """Facts about a pooler that decide if it fits.

    Args:
        supernodes: rule for the number of supernodes.
        connected: True if a connected graph always stays connected.
        all_nodes: True if every node belongs to a supernode; False if nodes are dropped with their features.
        hubs: True if the pooler works well on graphs with hubs.
        max_nodes: nodes of the largest graph.
        cost: time relative to ``graclus`` or ``topk``.
        attributes: attributes of nodes without which the pooler cannot run.
    """

    supernodes: Supernodes
    connected: bool
    all_nodes: bool
    hubs: bool
    max_nodes: int
    cost: float
    attributes: tuple[str, ...] = ()


FACTS: dict[str, Facts] = {
    "graclus": Facts("half", True, True, False, 10**8, 1),
    "kmis": Facts("graph", True, True, False, 10**8, 1),
    "hem": Facts("half", True, True, True, 10**8, 2),
    "collapse": Facts("half", True, True, True, 10**7, 6),
    "affinity": Facts("half", True, True, True, 10**7, 10),
    "lv": Facts("half", True, True, True, 10**6, 30),
    "amg": Facts("graph", True, True, False, 10**7, 8),
    "simmatch": Facts("half", True, True, True, 10**6, 20, ("x",)),
    "ugc": Facts("half", True, True, True, 10**7, 5, ("x",)),
    "voxel": Facts("graph", True, True, True, 10**8, 1, ("pos",)),
    "fps": Facts("ratio", True, True, True, 10**7, 20, ("pos",)),
    "sep": Facts("graph", True, True, True, 10**6, 18),
    "leiden": Facts("graph", True, True, True, 10**7, 8),
    "louvain": Facts("graph", True, True, True, 10**7, 6),
    "bistride": Facts("half", True, False, False, 10**8, 2),
    "partition": Facts("k", True, True, True, 3 * 10**7, 16),
    "ndp": Facts("half", False, False, False, 10**6, 38),
    "eigen": Facts("k", True, True, True, 10**6, 70),
    "nmf": Facts("k", True, True, True, 10**6, 140),
    "topk": Facts("ratio", False, False, True, 10**6, 1),
    "sag": Facts("ratio", False, False, True, 10**6, 1),
    "pan": Facts("ratio", False, False, True, 10**5, 1.5),
    "mincut": Facts("k", True, True, True, 10**5, 2.3),
    "dmon": Facts("k", True, True, True, 10**5, 1.6),
    "hosc": Facts("k", True, True, True, 10**5, 2.2),
    "jb": Facts("k", True, True, True, 10**5, 1.5),
    "diff": Facts("k", True, True, True, 10**5, 2.4),
    "ec": Facts("half", True, True, False, 10**6, 2.8),
    "asap": Facts("ratio", False, False, False, 10**6, 3.7),
    "acc": Facts("k", True, True, True, 10**5, 4.9),
    "maxcut": Facts("ratio", True, True, True, 10**6, 5.3),
    "lap": Facts("graph", True, True, True, 10**4, 5.6),
    "bnpool": Facts("graph", True, True, True, 10**4, 10),
}
"""Facts by alias, in order of preference among equals. A pooler without a line is not recommended."""

BASELINES = ("nopool", "random")
"""Poolers that are never recommended."""


@dataclass(frozen=True)
class Needs:
    """Requirements and preferences of a user.

    Args:
        train: True for a layer that runs in the model, False for levels that are computed before training.
        nodes: nodes of the largest graph.
        exact_k: number of supernodes that every graph must have; ``None`` if it may differ.
        connected: True if a connected graph must stay connected.
        hubs: True if the graphs have hubs, as social networks do.
        fast: True if speed matters more than anything else.
        dataset: dataset of the command; the built-in molecules if ``None``.
        attributes: attributes of nodes that the graphs have and that decide about supernodes, such as ``("pos",)``.
    """

    train: bool = False
    nodes: int = 1000
    exact_k: int | None = None
    connected: bool = False
    hubs: bool = False
    fast: bool = False
    dataset: str | None = None
    attributes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name, least in (("nodes", 1), ("exact_k", 1)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise InputError(
                    f"{name} is out of range: expected a whole number >= {least}, got {value}", field=name
                )

    @property
    def text(self) -> str:
        """The needs in words."""
        parts = [
            "a layer that is trained" if self.train else "levels computed before training",
            f"graphs of up to {self.nodes:,} nodes",
            f"exactly {self.exact_k:,} supernodes" if self.exact_k else "any number of supernodes",
            *(["connected graphs stay connected"] if self.connected else []),
            *(["graphs with hubs"] if self.hubs else []),
            *(["speed first"] if self.fast else []),
            *([f"supernodes by {' and '.join(self.attributes)}"] if self.attributes else []),
        ]
        return ", ".join(parts)


class Rule(NamedTuple):
    """Rule of the choice: a need of the user to which it applies, and the condition that a pooler must meet then.

    Args:
        applies: function of the needs.
        fits: function of the facts and the needs.
        required: True if a pooler that does not fit is left out; False if it only ranks lower.
        reason: text for a pooler that fits.
        objection: text for a pooler that does not fit.
    """

    applies: Callable[[Needs], bool]
    fits: Callable[[Facts, Needs], bool]
    required: bool
    reason: str
    objection: str


RULES: tuple[Rule, ...] = (
    Rule(
        lambda n: n.exact_k is not None,
        lambda f, n: f.supernodes == "k",
        True,
        "",
        "graphs can get different numbers of supernodes (with nodes=K, graphs with more than K components or fewer than K nodes)",
    ),
    Rule(
        lambda n: n.connected,
        lambda f, n: f.connected,
        True,
        "graphs stay connected",
        "graphs can fall apart",
    ),
    Rule(
        lambda n: True,
        lambda f, n: n.nodes <= f.max_nodes or _levels_before(f, n) > 0,
        True,
        "",
        "too slow for graphs of this size",
    ),
    Rule(
        lambda n: not n.train,
        lambda f, n: set(f.attributes) <= set(n.attributes),
        True,
        "",
        "needs features or positions of the nodes",
    ),
    Rule(
        lambda n: n.hubs,
        lambda f, n: f.hubs,
        False,
        "works with hubs",
        "hubs shrink badly",
    ),
    Rule(
        lambda n: n.nodes >= 10**5,
        lambda f, n: 2 * n.nodes <= f.max_nodes or _levels_before(f, n) > 0,
        False,
        "",
        "close to its limit at this size",
    ),
    Rule(
        lambda n: True,
        lambda f, n: f.all_nodes,
        False,
        "uses all nodes",
        "drops nodes and their features",
    ),
    Rule(
        lambda n: not n.connected,
        lambda f, n: f.connected,
        False,
        "graphs stay connected",
        "graphs can fall apart",
    ),
)
"""Rules in the order in which their texts are shown. The first rule on which two poolers differ ranks them. If there is
none, the one of lower cost comes first, and among those of similar cost the one that is earlier in ``FACTS``."""


@dataclass(frozen=True)
class Choice:
    """A pooler that fits.

    Args:
        alias: name of the pooler.
        summary: one line that describes it.
        reason: one line that says why.
        command: command line, or line of Python for a layer, to copy.
    """

    alias: str
    summary: str
    reason: str
    command: str


def choose_poolers(needs: Needs) -> list[Choice]:
    """Rank the poolers that meet the requirements, best first.

    Args:
        needs: what the user needs.

    Examples:
        >>> [choice.alias for choice in choose_poolers(Needs(exact_k=8))]
        ['partition', 'eigen', 'nmf']
        >>> choose_poolers(Needs(fast=True))[0].command
        "tgp coarsen --pooler 'graclus*2'"
    """
    ranked = []
    applied = [rule for rule in RULES if rule.applies(needs)]
    for alias, facts in FACTS.items():
        pooler = describe_pooler(alias)
        if pooler.precoarsenable == needs.train:
            continue
        if any(rule.required and not rule.fits(facts, needs) for rule in applied):
            continue
        failed = [not rule.fits(facts, needs) for rule in applied]
        effort = round(math.log2(facts.cost))
        key = (effort, *failed) if needs.fast else (*failed, effort)
        choice = Choice(
            alias, pooler.summary, _reason(alias, facts, applied, needs), _command(alias, facts, needs)
        )
        ranked.append((key, choice))
    return [choice for _, choice in sorted(ranked, key=lambda pair: pair[0])]


def left_out(needs: Needs) -> dict[str, list[str]]:
    """Return the poolers that do not meet a requirement, by the reason.

    Args:
        needs: what the user needs.

    Examples:
        >>> left_out(Needs(connected=True))["graphs can fall apart"]
        ['ndp']
    """
    found: dict[str, list[str]] = {}
    for alias, facts in FACTS.items():
        failed = [
            rule for rule in RULES if rule.required and rule.applies(needs) and not rule.fits(facts, needs)
        ]
        if failed and describe_pooler(alias).precoarsenable != needs.train:
            found.setdefault(failed[0].objection, []).append(alias)
    unrated = [
        pooler.alias
        for pooler in list_poolers()
        if pooler.package is None
        and pooler.alias not in (*FACTS, *BASELINES)
        and pooler.precoarsenable != needs.train
    ]
    return found | ({"not compared with the others yet": unrated} if unrated else {})


def supernodes_text(alias: str) -> str | None:
    """Describe the number of supernodes of a pooler, or return ``None`` if there is no line for it."""
    return _SUPERNODES[FACTS[alias].supernodes] if alias in FACTS else None


def _levels_before(facts: Facts, needs: Needs) -> int:
    """Return the number of ``graclus`` levels that make a graph small enough for an exact number of clusters."""
    if (
        needs.train
        or needs.exact_k is None
        or facts.supernodes != "k"
        or not facts.max_nodes < needs.nodes <= FACTS["graclus"].max_nodes
    ):
        return 0
    return math.ceil(math.log2(needs.nodes / facts.max_nodes)) + 1


def _reason(alias: str, facts: Facts, rules: list[Rule], needs: Needs) -> str:
    base = "topk" if needs.train else "graclus"
    speed = f"as fast as {base}" if facts.cost == 1 else f"{facts.cost:g} times the time of {base}"
    if alias == base:
        speed = "the fastest"
    before = ["a few fast levels first"] if _levels_before(facts, needs) else []
    good = [rule.reason for rule in rules if rule.fits(facts, needs) and rule.reason]
    bad = [f"but {rule.objection}" for rule in rules if not rule.fits(facts, needs)]
    return "; ".join([_SUPERNODES[facts.supernodes], *before, speed, *good, *bad])


def _command(alias: str, facts: Facts, needs: Needs) -> str:
    k = needs.exact_k or max(2, min(8, math.isqrt(needs.nodes)))
    if needs.train:
        arguments: dict[str, Any] = {"in_channels": 64, "k": k}
        known = {parameter.name for parameter in describe_pooler(alias).layer_parameters or []}
        given = "".join(f", {name}={value}" for name, value in arguments.items() if name in known)
        flat = "_u" if needs.nodes > MOST_PADDED and "batched" in known else ""
        return f'get_pooler("{alias}{flat}"{given})'
    before = _levels_before(facts, needs)
    first = f"graclus*{before}," if before else ""
    schedule = f"{first}{alias}:k={k}" if facts.supernodes == "k" else f"{alias}*2"
    dataset = f" --dataset {shlex.quote(needs.dataset)}" if needs.dataset else ""
    return f"tgp coarsen --pooler {shlex.quote(schedule)}{dataset}"
