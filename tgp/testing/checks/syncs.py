"""Checks of host synchronizations."""

from __future__ import annotations

from tgp.testing.batches import is_dense_output, mixed_batch
from tgp.testing.cases import HOST_SYNCS, Case, Skip
from tgp.testing.syncs import count_host_syncs

ONCE: frozenset[str] = frozenset()
SLOW: frozenset[str] = frozenset()


def check_host_syncs(case: Case) -> None:
    """Check that a forward does not synchronize with an accelerator more often than documented."""
    limit = HOST_SYNCS.get(case.alias) if case.host_syncs is None else case.host_syncs
    if limit is None:
        raise Skip("no number of host synchronizations is documented for this pooler")
    data, pooler = mixed_batch(), case.build()
    sizes = {"batch_size": 4}
    if case.options.get("batched"):
        sizes["max_num_nodes"] = 6
    out = data(pooler, **sizes)
    if out.so.is_dense and not is_dense_output(out):
        raise Skip("the number of edges of a sparse result must be known on the host")
    counts = count_host_syncs(
        lambda: pooler(x=data.x, adj=data.adj, edge_weight=data.edge_weight, batch=data.batch, **sizes)
    )
    total = sum(counts.values())
    assert total <= limit, f"{total} host synchronizations, {limit} documented: {dict(counts)}"
