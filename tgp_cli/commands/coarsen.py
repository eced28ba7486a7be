"""``tgp coarsen``: compute hierarchies of a dataset and store them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tgp_cli._options import DebugOpt, JsonOpt, QuietOpt, WorkersOpt, local_only
from tgp_cli._output import Output
from tgp_cli._progress import Progress
from tgp_cli._status import ExitStatus

EPILOG = (
    "Examples: tgp coarsen | tgp coarsen --pooler ndp,ndp --dataset MUTAG | "
    "tgp coarsen --pooler 'kmis:order_k=2' --pooler 'sep*3' --dataset graphs.npz --workers 4"
)
SETTINGS = {"allow_extra_args": True}  # to say what they should have been
_LEVELS = "Levels, finest first: ndp,eigen:k=8,graclus*3. Repeat for several hierarchies. Default graclus*2."
_DATASET = "A known name, a path, module:callable, or a built-in set. Default molecules."


def _option(*names: str, **values: Any) -> Any:
    return typer.Option(*names, show_default=False, **values)


Poolers = Annotated[list[str] | None, _option("--pooler", "-p", help=_LEVELS)]
Dataset = Annotated[str | None, _option("--dataset", "-d", help=_DATASET)]
Root = Annotated[Path | None, _option(help="Where datasets are kept. Default $TGP_DATA or ./data.")]
Out = Annotated[
    Path | None,
    _option("--out", "-o", callback=local_only, help="Directory of the store. Default pooled/<dataset>."),
]
Names = Annotated[list[str] | None, _option("--name", help="Name of a hierarchy, one per --pooler.")]
Levels = Annotated[str | None, _option(metavar="0,2", help="Store only these levels; the first is 0.")]
Seed = Annotated[int | None, _option(help="Seed of every random choice. Default 0.")]
Scheduler = Annotated[str | None, _option(help="Address or file of a Dask scheduler.")]
Shard = Annotated[str | None, _option(metavar="I/N", help="Do part I (from 0) of N, for job arrays.")]
Profile = Annotated[str | None, _option(help="fast (default): mapped into memory; small: compressed.")]
ShardSize = Annotated[str | None, _option(help="Size of a shard. Default 64MB.")]
Limit = Annotated[int | None, _option(help="Only the first graphs.")]
Exclude = Annotated[list[str] | None, _option(help="Leave this attribute out of the store.")]
Undirected = Annotated[bool, _option("--undirected", help="Add missing reverse edges.")]
Largest = Annotated[bool, _option("--largest-component", help="Keep the largest component.")]
Degree = Annotated[bool, _option("--add-degree", help="Append the degree to the features.")]
NoMetrics = Annotated[bool, _option("--no-metrics", help="Store no quality figures.")]
Retry = Annotated[bool, _option("--retry-failed", help="Try failed graphs again.")]
Force = Annotated[bool, _option("--force", "-f", help="Rebuild a store made from something else.")]
DryRun = Annotated[bool, _option("--dry-run", "-n", help="Show what would be done.")]
Config = Annotated[Path | None, _option("--config", "-c", help="TOML file with these options.")]


def command(
    context: typer.Context,
    poolers: Poolers = None,
    dataset: Dataset = None,
    root: Root = None,
    out: Out = None,
    names: Names = None,
    only_levels: Levels = None,
    seed: Seed = None,
    workers: WorkersOpt = None,
    scheduler: Scheduler = None,
    shard: Shard = None,
    profile: Profile = None,
    shard_size: ShardSize = None,
    limit: Limit = None,
    exclude: Exclude = None,
    undirected: Undirected = False,
    largest_component: Largest = False,
    add_degree: Degree = False,
    no_metrics: NoMetrics = False,
    retry_failed: Retry = False,
    force: Force = False,
    dry_run: DryRun = False,
    config: Config = None,
    json: JsonOpt = False,
    quiet: QuietOpt = False,
    debug: DebugOpt = False,
) -> ExitStatus:
    """Compute hierarchies of a dataset and store them.

    Running the same command again is safe: a complete store is left alone, an interrupted one is continued.
    """
    from tgp.build.config import from_options, load_config
    from tgp.errors import InputError

    for word in context.args:
        raise InputError(f"unexpected argument {word!r}", hint=f"a dataset is named by --dataset {word}")
    settings = load_config(config, from_options(context.params))
    output = Output(json=json, quiet=quiet)
    from tgp.build.run import coarsen_dataset, plan_run
    from tgp_cli._render import show_plan, show_summary

    if dry_run:
        plan = plan_run(settings)
        output.result(plan.to_json(), lambda: show_plan(output, plan))
        return ExitStatus.OK
    with Progress(output) as progress:
        summary = coarsen_dataset(settings, progress=progress)
    output.result(summary.to_json(), lambda: show_summary(output, summary))
    return ExitStatus.PARTIAL if summary.failures else ExitStatus.OK
