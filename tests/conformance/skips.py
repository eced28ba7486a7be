"""Record of the checks that do not apply: a check that skips more, or less, than this fails."""

from fnmatch import fnmatch
from importlib.util import find_spec

DENSE = ["acc*", "bnpool*", "diff*", "dmon*", "eigen*", "hosc*", "jb*", "lap*", "mincut*", "nmf*"]
SPARSE = ["asap", "ec", "graclus", "kmis", "maxcut", "ndp", "nopool", "pan", "sag", "sep", "topk"]
FIXED = ["eigen*", "graclus", "kmis", "lap*", "ndp", "nmf*", "nopool", "sep"]
"""Poolers without parameters."""
LEARNED = [
    "acc*",
    "asap",
    "bnpool*",
    "diff*",
    "dmon*",
    "ec",
    "hosc*",
    "jb*",
    "maxcut",
    "mincut*",
    "pan",
    "sag",
    "topk",
]
NO_LOSS = [
    "asap",
    "ec",
    "eigen*",
    "graclus",
    "kmis",
    "lap*",
    "ndp",
    "nmf*",
    "nopool",
    "pan",
    "sag",
    "sep",
    "topk",
]
NO_CACHE = ["asap", "ec", "lap*", "maxcut", "nopool", "pan", "sag", "topk"]
NOT_PADDED = [*SPARSE, "eigen*", "nmf*"]

SKIPS: dict[str, list[str]] = {
    "mask": SPARSE,
    "numbering": DENSE,
    "reduce": DENSE,
    "gradcheck": FIXED,
    "modes_agree": SPARSE,
    "precoarsening": [*LEARNED, "lap*"],
    "half_losses": NO_LOSS,
    "sparse_tensor": [] if find_spec("torch_sparse") else ["*"],
    "cache_alternates": NO_CACHE,
    "cache_notices": NO_CACHE,
    "cache_learned_weights": NO_CACHE,
    "layers_called": FIXED,
    "override_loss": NO_LOSS,
    "half_large": FIXED,
    "vmap": [*NOT_PADDED, "lap*"],
    "fullgraph": NOT_PADDED,
    "export": NOT_PADDED,
    "host_syncs": ["*sparse_output=True", "eigen*", "graclus", "kmis", "ndp", "nmf*", "sep"],
}
"""Check -> cases that it does not apply to."""


def applies(check: str, case: str) -> bool:
    """Return True if the check runs on the case."""
    return not any(fnmatch(case, pattern) for pattern in SKIPS.get(check, []))
