"""``tgp doctor``: check the installation, for bug reports."""

from __future__ import annotations

import itertools
from dataclasses import asdict
from typing import TYPE_CHECKING

from tgp.inspect.numbers import counted
from tgp_cli._errors import ExitStatus
from tgp_cli._options import DebugOpt, JsonOpt, RootOpt
from tgp_cli._output import Output

if TYPE_CHECKING:
    from tgp.inspect.doctor import Check

EPILOG = "Examples: tgp doctor | tgp doctor --json"


def command(
    root: RootOpt = None,
    json: JsonOpt = False,
    debug: DebugOpt = False,
) -> ExitStatus:
    """Check the installation, for bug reports.

    Shows versions, cores, memory, folders and optional packages. Problems are marked with an exclamation mark. Exits
    with status 1 if something is broken that tgp needs.
    """
    from tgp.inspect.doctor import examine

    out = Output(json=json)
    checks = examine(root)
    broken = any(check.problem and check.required for check in checks)
    report = {"sound": not broken, "checks": [asdict(check) for check in checks]}
    out.result(report, lambda: _show(out, checks))
    return ExitStatus.FINDINGS if broken else ExitStatus.OK


def _show(out: Output, checks: list[Check]) -> None:
    width = max(len(check.name) for check in checks) + 2
    for section, group in itertools.groupby(checks, lambda check: check.section):
        out.line(section)
        for check in group:
            mark = "!" if check.problem else " "
            out.text(f"{mark} {check.name:<{width}}{check.value}", indent=width + 2)
            if check.advice:
                out.text(f"  {'':<{width}}-> {check.advice}", indent=width + 5)
    problems = sum(check.problem for check in checks)
    out.line(f"{counted(problems, 'problem')} found." if problems else "No problem found.")
