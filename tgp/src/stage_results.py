"""Checks of what the stages of a pooler return. Stages may be code of users."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from torch import Tensor

from tgp.errors import InputError
from tgp.select.base_select import SelectOutput

if TYPE_CHECKING:
    from tgp.src.base import SRCPooling

__all__ = ["checked_assignment", "checked_connectivity"]


def checked_assignment(pooler: SRCPooling, so: Any) -> SelectOutput:
    """Return the result of the select stage.

    Raises:
        InputError: If it is not an assignment.
    """
    if isinstance(so, SelectOutput) or hasattr(so, "num_supernodes"):
        return cast("SelectOutput", so)
    raise InputError(
        f"{_stage(pooler, 'select', pooler.selector)} must return a SelectOutput, got {type(so).__name__}. "
        "For hard clusters: SelectOutput(cluster_index=...).",
        field="so",
    )


def checked_connectivity(pooler: SRCPooling, pooled: Any) -> tuple[Any, Tensor | None]:
    """Return the result of the connect stage.

    A single tensor ``[2, E]`` would be unpacked into its rows.

    Raises:
        InputError: If it does not consist of edges and weights.
    """
    if isinstance(pooled, (tuple, list)) and len(pooled) in (2, 3):
        return cast("tuple[Any, Tensor | None]", pooled)
    raise InputError(
        f"{_stage(pooler, 'connect', pooler.connector)} must return (edge_index, edge_weight), "
        f"got {type(pooled).__name__}. Return (edge_index, None) without weights.",
        field="edge_index",
    )


def _stage(pooler: SRCPooling, method: str, stage: Any) -> str:
    """Return the name of the code that ran a stage, for a message."""
    owner = next(cls for cls in type(pooler).__mro__ if method in cls.__dict__)
    if owner.__module__.startswith("tgp.") and stage is not None:
        return type(stage).__name__
    return f"{owner.__name__}.{method}"
