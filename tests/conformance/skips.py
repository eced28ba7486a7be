"""Record of the checks that do not apply: a check that is skipped more, or less, often than this fails.

The record follows from the entry of a pooler in the table and from its constructor, so that it also covers new poolers.
"""

from collections.abc import Callable
from importlib.util import find_spec

from tgp.testing.cases import Case


def _trait(name: str) -> Callable[[Case], bool]:
    return lambda case: bool(case.entry.traits[name])


def _has_cache(case: Case) -> bool:
    return case.takes("cached") or case.takes("cache_preprocessing")


def _has_modes(case: Case) -> bool:
    return case.takes("batched") or case.takes("sparse_output")


def _is_padded(case: Case) -> bool:
    return bool(case.options.get("batched"))


def _merges_edges(case: Case) -> bool:
    """Return True if pooled edges are merged input edges, so that their attributes can be pooled."""
    return case.alias not in ("bistride", "ndp")


def _documents_syncs(case: Case) -> bool:
    """Return True if the number of host synchronizations is documented.

    A precoarsenable pooler copies its graph to the host, unless it does not read the graph at all.
    """
    return not case.options.get("sparse_output") and (
        not case.entry.traits["precoarsenable"] or case.alias == "nopool"
    )


APPLIES: dict[str, Callable[[Case], bool]] = {
    "mask": _trait("dense"),
    "numbering": lambda case: not case.entry.traits["dense"],
    "reduce": lambda case: not case.entry.traits["dense"],
    "gradcheck": _trait("trainable"),
    "modes_agree": _has_modes,
    "precoarsening": _trait("precoarsenable"),
    "half_losses": _trait("loss"),
    "sparse_tensor": lambda case: find_spec("torch_sparse") is not None,
    "cache_alternates": _has_cache,
    "cache_notices": _has_cache,
    "cache_learned_weights": _has_cache,
    "layers_called": _trait("trainable"),
    "override_loss": _trait("loss"),
    "edge_attr": _merges_edges,
    "override_edge_attr": _merges_edges,
    "half_large": _trait("trainable"),
    "vmap": lambda case: _is_padded(case) and case.entry.traits["trainable"],
    "fullgraph": _is_padded,
    "export": _is_padded,
    "host_syncs": _documents_syncs,
}
"""Conditions under which a check applies, by its name. All other checks apply to every pooler."""


def applies(check: str, case: Case) -> bool:
    """Return True if the check applies to the case."""
    return check not in APPLIES or APPLIES[check](case)
