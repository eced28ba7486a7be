"""``tgp coarsen``: compute hierarchies of a dataset and store them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tgp_cli import _completion as values
from tgp_cli import _options as shared
from tgp_cli._errors import ExitStatus
from tgp_cli._options import option, reject_url, suggest_option
from tgp_cli._output import Output
from tgp_cli._progress import Progress

EPILOG = (
    "Examples: tgp coarsen | tgp coarsen --pooler ndp,ndp --dataset MUTAG | "
    "tgp coarsen --pooler 'kmis:order_k=2' --pooler 'sep*3' --dataset graphs.npz --workers 4"
)
SETTINGS = {"allow_extra_args": True}  # an extra argument gets a message with the right option
_POOLER = (
    "Poolers of the levels, finest level first, for example ndp,eigen:k=8,graclus*3. "
    "graclus* repeats the last level up to --until. Repeat the option for several hierarchies. Default: graclus*2."
)
_MAX_INPUT = "Memory that the input files may need. Default: 4GB or 100 times their size, up to the memory."
_MEMORY = "Coarsen one file of edges from disk in this memory (SIZE or auto). Some methods, no metrics."
_DATASET = "Known name, path, module:callable or built-in dataset. Default: molecules."


Poolers = Annotated[
    list[str] | None,
    option("--pooler", "-p", metavar="SCHEDULE", help=_POOLER, autocompletion=values.complete_schedules),
]
Dataset = Annotated[
    str | None,
    option("--dataset", "-d", metavar="NAME", help=_DATASET, autocompletion=values.complete_datasets),
]
Out = Annotated[
    Path | None,
    option(
        "--out",
        "-o",
        metavar="DIR",
        callback=reject_url,
        help="Directory of the store. Default: pooled/<dataset>.",
    ),
]
Names = Annotated[
    list[str] | None, option("--name", metavar="NAME", help="Name of a hierarchy, one per --pooler.")
]
Levels = Annotated[
    str | None,
    option(metavar="2,4", help="Store only these levels. Level 1 is the first pooled graph."),
]
Until = Annotated[
    int | None,
    option(metavar="N", help="Repeat a last level with * until graphs have at most N nodes. Default: 1."),
]
Seed = Annotated[int | None, option(metavar="N", help="Seed of all random choices. Default: 0.")]
Scheduler = Annotated[
    str | None, option(metavar="ADDRESS", help="Dask scheduler: its address or its scheduler file.")
]
Shard = Annotated[str | None, option(metavar="I/N", help="Do job I of N, with I from 0 to N-1.")]
ShardSize = Annotated[
    str | None, option(metavar="SIZE", help="Size of a shard file, with a unit. Default: 64MB.")
]
Limit = Annotated[int | None, option(metavar="N", help="Use only the first N graphs.")]
Exclude = Annotated[list[str] | None, option(metavar="NAME", help="Leave this attribute out of the store.")]
Undirected = Annotated[bool, option("--undirected", help="Add missing reverse edges.")]
Largest = Annotated[
    bool, option("--largest-component", help="Keep only the largest connected component of each graph.")
]
Degree = Annotated[bool, option("--add-degree", help="Append the node degree to the features.")]
NoMetrics = Annotated[bool, option("--no-metrics", help="Do not compute quality metrics.")]
Retry = Annotated[bool, option("--retry-failed", help="Retry graphs that failed before.")]
Force = Annotated[
    bool, option("--force", "-f", help="Replace a store that was made from other data or settings.")
]
MaxInput = Annotated[str | None, option(metavar="SIZE", help=_MAX_INPUT)]
Memory = Annotated[str | None, option(metavar="SIZE", help=_MEMORY)]
DryRun = Annotated[bool, option("--dry-run", "-n", help="Show the plan and estimates, write nothing.")]
Config = Annotated[
    Path | None, option("--config", "-c", metavar="FILE", help="TOML file with values for these options.")
]


def command(
    context: typer.Context,
    poolers: Poolers = None,
    dataset: Dataset = None,
    root: shared.RootOpt = None,
    out: Out = None,
    names: Names = None,
    only_levels: Levels = None,
    until: Until = None,
    carry: shared.CarryOpt = None,
    relations: shared.RelationsOpt = None,
    type_graph: shared.TypeGraphOpt = None,
    seed: Seed = None,
    workers: shared.WorkersOpt = None,
    threads: shared.ThreadsOpt = None,
    scheduler: Scheduler = None,
    shard: Shard = None,
    profile: shared.ProfileOpt = None,
    shard_size: ShardSize = None,
    shard_edges: shared.ShardEdgesOpt = None,
    limit: Limit = None,
    exclude: Exclude = None,
    undirected: Undirected = False,
    largest_component: Largest = False,
    add_degree: Degree = False,
    no_metrics: NoMetrics = False,
    retry_failed: Retry = False,
    force: Force = False,
    max_input: MaxInput = None,
    memory: Memory = None,
    dry_run: DryRun = False,
    config: Config = None,
    json: shared.JsonOpt = False,
    quiet: shared.QuietOpt = False,
    debug: shared.DebugOpt = False,
) -> ExitStatus:
    """Compute hierarchies of a dataset and store them.

    Running the same command again is safe: a complete store is not changed, an interrupted run continues.
    """
    from tgp.build.config import from_options, load_config
    from tgp.errors import InputError

    for word in context.args:
        raise InputError(f"unexpected argument {word!r}", hint=suggest_option(word))
    settings = load_config(config, from_options(context.params))
    output = Output(json=json, quiet=quiet)
    from tgp.build.run import coarsen_dataset, plan_run
    from tgp_cli._render import show_advice, show_plan, show_summary

    if dry_run:
        plan = plan_run(settings)
        output.result(plan.to_json(), lambda: show_plan(output, plan))
        return ExitStatus.OK
    with Progress(output) as progress:
        summary = coarsen_dataset(settings, progress=progress)
    output.result(summary.to_json(), lambda: show_summary(output, summary))
    show_advice(output, summary)
    return ExitStatus.PARTIAL if summary.failures else ExitStatus.OK
