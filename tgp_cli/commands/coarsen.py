"""``tgp coarsen``: compute hierarchies of a dataset and store them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tgp_cli._options import DebugOpt, JsonOpt, QuietOpt, WorkersOpt
from tgp_cli._output import Output
from tgp_cli._progress import Progress
from tgp_cli._status import ExitStatus

EPILOG = (
    "Examples: tgp coarsen | tgp coarsen --pooler ndp,ndp --dataset MUTAG | "
    "tgp coarsen --pooler 'kmis:k=2' --pooler 'sep*3' --dataset graphs.npz --workers 4"
)
Opt = typer.Option


def command(
    pooler: Annotated[
        list[str] | None,
        Opt(
            "--pooler",
            "-p",
            help="Levels, finest first: ndp,eigen:k=8,graclus*3. Repeat for several hierarchies. Default graclus*2.",
        ),
    ] = None,
    dataset: Annotated[
        str | None,
        Opt(
            "--dataset",
            "-d",
            help="A known name, a path, module:callable, or a built-in set. Default molecules.",
        ),
    ] = None,
    root: Annotated[Path | None, Opt(help="Where datasets are kept. Default $TGP_DATA or ./data.")] = None,
    out: Annotated[
        Path | None, Opt("--out", "-o", help="Directory of the store. Default pooled/<dataset>.")
    ] = None,
    name: Annotated[list[str] | None, Opt(help="Name of a hierarchy, one per --pooler.")] = None,
    seed: Annotated[int | None, Opt(help="Seed of every random choice. Default 0.")] = None,
    workers: WorkersOpt = None,
    scheduler: Annotated[str | None, Opt(help="Address or file of a Dask scheduler.")] = None,
    shard: Annotated[str | None, Opt(metavar="I/N", help="Do part I (from 0) of N, for job arrays.")] = None,
    profile: Annotated[str | None, Opt(help="fast: mapped into memory; small: compressed.")] = None,
    shard_size: Annotated[str | None, Opt(help="Size of a shard, such as 64MB.")] = None,
    limit: Annotated[int | None, Opt(help="Only the first graphs.")] = None,
    exclude: Annotated[list[str] | None, Opt(help="Leave this attribute out of the store.")] = None,
    undirected: Annotated[bool, Opt("--undirected", help="Add missing reverse edges.")] = False,
    largest_component: Annotated[
        bool, Opt("--largest-component", help="Keep the largest component.")
    ] = False,
    add_degree: Annotated[bool, Opt("--add-degree", help="Append the degree to the features.")] = False,
    no_metrics: Annotated[bool, Opt("--no-metrics", help="Store no quality figures.")] = False,
    retry_failed: Annotated[bool, Opt("--retry-failed", help="Try failed graphs again.")] = False,
    force: Annotated[bool, Opt("--force", "-f", help="Rebuild a store made from something else.")] = False,
    dry_run: Annotated[bool, Opt("--dry-run", "-n", help="Show what would be done.")] = False,
    config: Annotated[Path | None, Opt("--config", "-c", help="TOML file with these options.")] = None,
    json: JsonOpt = False,
    quiet: QuietOpt = False,
    debug: DebugOpt = False,
) -> ExitStatus:
    """Compute hierarchies of a dataset and store them.

    Running the same command again is safe: a complete store is left alone, an interrupted one is continued.
    """
    from tgp.pipeline.config import load_config, parse_shard, size_in_bytes
    from tgp_cli._render import show_plan, show_summary

    given = {
        "poolers": tuple(pooler) if pooler else None,
        "dataset": dataset,
        "root": root,
        "out": out,
        "names": tuple(name) if name else None,
        "seed": seed,
        "workers": workers,
        "scheduler": scheduler,
        "shard": parse_shard(shard) if shard else None,
        "profile": profile,
        "shard_size": size_in_bytes(shard_size) if shard_size else None,
        "limit": limit,
        "exclude": tuple(exclude) if exclude else None,
        "undirected": undirected or None,
        "largest_component": largest_component or None,
        "add_degree": add_degree or None,
        "metrics": False if no_metrics else None,
        "retry_failed": retry_failed or None,
        "force": force or None,
    }
    settings = load_config(config, given)
    output = Output(json=json, quiet=quiet)
    from tgp.pipeline.run import coarsen_dataset, plan_run

    if dry_run:
        plan = plan_run(settings)
        output.result(plan.to_json(), lambda: show_plan(output, plan))
        return ExitStatus.OK
    with Progress(output) as progress:
        summary = coarsen_dataset(settings, progress=progress)
    output.result(summary.to_json(), lambda: show_summary(output, summary))
    return ExitStatus.PARTIAL if summary.failures else ExitStatus.OK
