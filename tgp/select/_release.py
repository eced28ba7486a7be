"""Objects that tgp 1.0.2 made: its dataclass fields and its pickles."""

from __future__ import annotations

from dataclasses import Field, make_dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor

from tgp.errors import InputError

if TYPE_CHECKING:
    from tgp.select.base_select import SelectOutput

__all__ = ["adopt_state", "dataclass_fields"]

_FIELDS = ("s", "s_inv", "batch")


def dataclass_fields() -> dict[str, Field[Any]]:
    """Return the fields of ``SelectOutput``, for :func:`dataclasses.fields` and :func:`dataclasses.replace`."""
    fields = make_dataclass("Fields", [(name, "Tensor | None", None) for name in _FIELDS])
    return fields.__dataclass_fields__


def adopt_state(so: SelectOutput, state: dict[str, Any]) -> None:
    """Fill a new ``SelectOutput`` with the state that 1.0.2 pickled.

    Raises:
        InputError: if the state has no assignment matrix.
    """
    if not isinstance(state.get("s"), Tensor):
        raise InputError(
            "cannot load this SelectOutput: expected the state of tgp 1.0.2 or later, "
            f"got the attributes {sorted(state)}. Compute the assignment again and save it",
            field="s",
        )
    extras = {name: state[name] for name in state.get("_extra_args", ()) if name in state}
    extras["in_mask"] = state.get("in_mask")
    known = {name: state.get(name) for name in _FIELDS}
    so.__init__(**known, **extras)  # type: ignore[misc]
