"""Options of ``tgp coarsen`` about the content and the form of stored levels."""

from __future__ import annotations

from typing import Annotated

import typer

from tgp_cli import _completion as values

__all__ = ["CarryOpt", "ProfileOpt", "RelationsOpt", "ShardEdgesOpt", "TypeGraphOpt"]

_PROFILE = "fast (default, memory-mapped) or small (compressed)."
_CARRY = "Attributes of the levels: auto, or rules such as pos=mean,y=majority or auto,x=none. Default: none."
_SHARD_EDGES = "Divide a single large graph: edges after which it continues in another file. Default: none."
_RELATIONS = "HeteroData: relations on which supernodes depend, separated by commas. Default: all."
_TYPE_GRAPH = "HeteroData: edges that poolers see: auto (default), same or project."

CarryOpt = Annotated[
    str | None,
    typer.Option(metavar="RULES", help=_CARRY, autocompletion=values.complete_reductions, show_default=False),
]
RelationsOpt = Annotated[str | None, typer.Option(metavar="NAMES", help=_RELATIONS, show_default=False)]
TypeGraphOpt = Annotated[
    str | None,
    typer.Option(
        "--type-graph",
        metavar="MODE",
        help=_TYPE_GRAPH,
        autocompletion=values.complete_type_graphs,
        show_default=False,
    ),
]
ProfileOpt = Annotated[
    str | None,
    typer.Option(
        metavar="PROFILE", help=_PROFILE, autocompletion=values.complete_profiles, show_default=False
    ),
]
ShardEdgesOpt = Annotated[
    int | None,
    typer.Option("--shard-edges", min=1, metavar="N", help=_SHARD_EDGES, show_default=False),
]
