"""``tgp.coarsen``: compute hierarchies of graphs in one call."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any, Literal

from tgp.build.config import CoarsenConfig
from tgp.build.findings import Finding, warn_about
from tgp.build.progress import Step, open_progress
from tgp.build.run import coarsen_dataset, coarsen_in_memory
from tgp.engine.carry import CarryLike
from tgp.engine.schedule import Schedule
from tgp.errors import InputError
from tgp.store import MemoryFiles

if TYPE_CHECKING:
    from tgp.data.dataset import PooledDataset

__all__ = ["coarsen"]

PathLike = str | os.PathLike[str]
Poolers = str | Schedule | Sequence[str | Schedule] | Mapping[str, str | Schedule]


def coarsen(
    graphs: Any,
    poolers: Poolers,
    out: PathLike | None = None,
    *,
    seed: int = 0,
    workers: int | None = None,
    progress: bool | Callable[[Step], None] | None = None,
    names: str | Sequence[str] = (),
    only_levels: int | Sequence[int] | None = None,
    failed: Literal["error", "skip"] = "error",
    exclude: str | Iterable[str] = (),
    limit: int | None = None,
    undirected: bool = False,
    largest_component: bool = False,
    add_degree: bool = False,
    metrics: bool = True,
    profile: Literal["fast", "small"] | None = None,
    shard_size: int | str | None = None,
    shard_edges: int | None = None,
    force: bool = False,
    retry_failed: bool = False,
    scheduler: str | None = None,
    executor: Executor | None = None,
    root: PathLike | None = None,
    max_input: int | str | None = None,
    carry: CarryLike = None,
    until: int | None = None,
    threads: int | None = None,
    relations: Iterable[str | tuple[str, str, str]] | str | None = None,
    type_graph: Literal["auto", "same", "project"] | None = None,
    memory: int | str | None = None,
) -> PooledDataset:
    """Compute hierarchies of graphs, store them, and return the dataset to train on.

    This is ``tgp coarsen`` in Python: the same schedules, settings and bytes. A second call with the same arguments reads
    the complete store. An interrupted call continues where it stopped. A store of other data or settings is an error.

    Args:
        graphs: A PyG dataset, one ``Data`` or ``HeteroData`` or any iterable of them, networkx graphs, scipy matrices, or the text that
            ``--dataset`` accepts: a known name, a path or ``module:callable``.
        poolers: Schedule of the levels, finest first, such as ``"graclus*3"`` or ``"ndp,eigen:k=8"``. A list of schedules
            makes several hierarchies, a mapping also names them. The returned dataset reads the first of them;
            :meth:`~tgp.data.PooledDataset.with_hierarchy` chooses another one.
        out: Directory of the store. ``None`` keeps the store in the memory of this process, without any file. The result
            has the same arrays, and can be pickled, forked and spawned.
        seed: Seed of every random choice.
        workers: Number of worker processes. The default depends on the cores and on the amount of work; a small run stays
            in this process.
        progress: ``None`` shows a bar in a terminal and in a notebook, and nothing elsewhere. ``True`` always shows it,
            ``False`` never. A function is called with each :class:`~tgp.build.Step`.
        names: One name per hierarchy; by default the name is made from the schedule.
        only_levels: Numbers of the levels to store, counted from 1.
        failed: What to do if some graphs cannot be coarsened: ``"error"``, or ``"skip"`` to leave them out of the dataset.
        exclude: Attributes to leave out of the store.
        limit: Number of graphs to keep, from the first.
        undirected: Add the missing reverse edges.
        largest_component: Keep the largest connected component of each graph.
        add_degree: Append the node degree to the features.
        metrics: Store quality figures of each level.
        profile: ``"fast"`` (memory-mapped) or ``"small"`` (compressed).
        shard_size: Target size of a shard, in bytes or as text such as ``"64MB"``.
        shard_edges: Number of edges after which a graph that is alone in its shard, or a level of it, is continued in another file.
        force: Rebuild a store that was built from other data or settings.
        retry_failed: Coarsen graphs again that failed in an earlier run.
        scheduler: Address of a Dask scheduler, or its scheduler file.
        executor: Any ``concurrent.futures.Executor`` whose workers see the same files.
        root: Directory of the datasets that are given by name; default ``$TGP_DATA`` or ``./data``.
        max_input: Limit of the memory that the content of input files may need, in bytes or as text.
        carry: Rules by which attributes of the graphs are computed for the levels: ``"auto"``, text such as
            ``"pos=mean,y=majority"``, or a mapping from attributes to reductions; see :class:`~tgp.engine.carry.CarryRules`.
        until: Size limit of a schedule that ends with ``*``, such as ``"graclus*"``: the last level is repeated until every graph
            has at most this number of nodes, or hardly shrinks. The default is 1.
        threads: Largest number of threads that work on one large graph; by default all usable cores, and 1 in worker processes.
            ``tgp.engine.threads.limit_threads`` and ``NUMBA_NUM_THREADS`` limit the threads of all calls.
        relations: For ``HeteroData``: relations on which the supernodes depend, such as ``"cites"`` or
            ``("author", "writes", "paper")``; all if ``None``. All relations are contracted.
        type_graph: For ``HeteroData``: edges that methods see, ``"auto"``, ``"same"`` or ``"project"``.
        memory: Largest memory of the run, in bytes or as text such as ``"4GB"``, for one graph in a file of edges that may be larger
            than memory; ``"auto"`` is four fifths of the memory of the machine or cgroup. The levels are computed from temporary files
            next to ``out``. Only ``hem``, ``kmis`` and ``graclus`` can do this.

    Returns:
        Dataset over the first hierarchy, for :class:`~tgp.data.PoolDataLoader`.

    Warns:
        FindingWarning: If the result will disappoint, for example if a level hardly shrinks.

    Raises:
        DatasetError: If the graphs cannot be read, or if some cannot be coarsened and ``failed="error"``.
        ScheduleError: If a schedule cannot be read.
        UnknownNameError: If a pooler or a parameter does not exist.
        StoreMismatchError: If the directory holds a store of other data or settings.
    """
    settings: dict[str, Any] = {
        "root": root,
        "out": out,
        "poolers": poolers,
        "names": names,
        "only_levels": only_levels,
        "exclude": exclude,
        "profile": profile,
        "shard_size": shard_size,
        "max_input": max_input,
    }
    settings |= {"carry": carry, "limit": limit, "until": until, "threads": threads, "memory": memory}
    settings |= {"relations": relations, "type_graph": type_graph, "shard_edges": shard_edges}
    config = CoarsenConfig(
        graphs,
        seed=seed,
        workers=workers,
        scheduler=scheduler,
        undirected=undirected,
        largest_component=largest_component,
        add_degree=add_degree,
        force=force,
        retry_failed=retry_failed,
        metrics=metrics,
        **settings,  # short forms
    )
    return _open_result(config, progress, executor, failed)


def _open_result(
    config: CoarsenConfig,
    progress: bool | Callable[[Step], None] | None,
    executor: Executor | None,
    failed: Literal["error", "skip"],
) -> PooledDataset:
    """Compute the hierarchies, warn about problems, and return the dataset of the first hierarchy."""
    store, findings = _run(config, progress, executor)
    warn_about(f for f in findings if f.kind != "failed" or failed == "skip")  # else an error follows
    from tgp.data.dataset import PooledDataset

    return PooledDataset(store, config.hierarchy_names[0], failed=failed)


def _run(
    config: CoarsenConfig, progress: bool | Callable[[Step], None] | None, executor: Executor | None
) -> tuple[PathLike | MemoryFiles, list[Finding]]:
    """Compute the hierarchies and return the place of the store and its problems."""
    with open_progress(progress) as show:
        if config.out is not None:
            return config.path, coarsen_dataset(config, progress=show, executor=executor).findings
        _refuse_files(config.workers, config.scheduler, executor, config.memory)
        summary, files = coarsen_in_memory(config, progress=show)
        return files, summary.findings


def _refuse_files(
    workers: int | None, scheduler: str | None, executor: Executor | None, memory: int | None
) -> None:
    """Refuse settings that need files for a store in memory."""
    workers = workers if workers != 1 else None
    given = {"workers": workers, "scheduler": scheduler, "executor": executor, "memory": memory}
    for name, value in given.items():
        if value is not None:
            raise InputError(
                f"{name} needs files: expected a directory in out, got out=None with {name}={value!r}",
                field=name,
                hint="give a directory (out=...), or leave out the setting to compute in this process",
            )
