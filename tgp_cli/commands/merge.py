"""``tgp merge``: complete a store that several jobs wrote."""

from __future__ import annotations

from tgp_cli._errors import ExitStatus
from tgp_cli._options import DebugOpt, JsonOpt, QuietOpt, StoreArg
from tgp_cli._output import Output

EPILOG = "Example: tgp merge pooled/big"


def command(
    store: StoreArg, json: JsonOpt = False, quiet: QuietOpt = False, debug: DebugOpt = False
) -> ExitStatus:
    """Complete a store that several jobs wrote.

    Exits with status 3 if files are missing.
    """
    from tgp.build.merge import merge_store, store_status
    from tgp_cli._render import show_advice, show_summary

    output = Output(json=json, quiet=quiet)
    status = store_status(store)
    if status.missing and not status.foreign:
        units = f"unit {status.array} is" if len(status.missing) == 1 else f"units {status.array} are"
        output.result(
            {"path": str(store), "status": "incomplete", "missing": status.missing, "array": status.array},
            lambda: output.line(f"{store} cannot be completed yet: {units} missing."),
        )
        return ExitStatus.PARTIAL
    summary = merge_store(store)
    output.result(summary.to_json(), lambda: show_summary(output, summary))
    show_advice(output, summary)
    return ExitStatus.OK
