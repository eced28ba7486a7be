"""Functions that run all checks on a pooler or on a level method, also on those of other packages.

>>> from tgp.testing import check_method, pooler_checks
>>> str(pooler_checks("topk")[0])
'topk/shapes'
>>> check_method("nopool")["sizes"]
'passed'
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from tgp.errors import UnknownNameError
from tgp.testing.cases import Skip, pooler_cases

__all__ = ["Check", "check_method", "check_pooler", "method_checks", "pooler_checks"]


@dataclass(frozen=True)
class Check:
    """One check on one pooler in one mode, or on one level method. Call it to run the check.

    Args:
        name: Name of the check.
        case: Pooler or method to check.
        function: Function that runs the check.
        exception: Reason why the check does not hold for this pooler, or ``None``.
        slow: True if the check takes seconds.
        device: Device of the graphs and the pooler.
    """

    name: str
    case: Any
    function: Callable[[Any], None]
    exception: str | None = None
    slow: bool = False
    device: str = "cpu"

    def __call__(self) -> None:
        """Run the check.

        Raises:
            AssertionError: If the check fails.
            Skip: If the check does not apply. pytest reports the test as skipped.
        """
        if self.exception is not None:
            raise Skip(self.exception)
        if self.device == "cpu":
            self.function(self.case)
            return
        import torch

        with torch.device(self.device):
            self.function(self.case)

    def __str__(self) -> str:
        return f"{self.case}/{self.name}"


def pooler_checks(
    pooler: str | type | None = None,
    *,
    only: Collection[str] | None = None,
    slow: bool = True,
    host_syncs: int | None = None,
    exceptions: dict[str, str] | None = None,
    device: str = "cpu",
    **arguments: Any,
) -> list[Check]:
    """List the checks of a pooler, for ``pytest.mark.parametrize``.

    Args:
        pooler: Alias or class; ``None`` for all poolers of tgp and all registered ones.
        only: Names of checks; all if ``None``.
        slow: Include checks that take seconds.
        host_syncs: Documented number of host synchronizations of one forward.
        exceptions: Reasons why checks do not hold for this pooler, by name of the check.
        device: Device of the graphs and the pooler, for example ``"cuda"``.
        **arguments: Constructor arguments. ``in_channels``, ``k``, ``ratio`` and ``scorer`` have defaults.

    Returns:
        One check per name and mode of the pooler.

    Raises:
        UnknownNameError: If ``only`` or ``exceptions`` names a check that does not exist.
    """
    from tgp.testing.checks import CHECKS, ONCE, SLOW

    _check_names(CHECKS, only, exceptions)
    found, seen = [], set()
    for case in pooler_cases(pooler, host_syncs=host_syncs, **arguments):
        for name, function in CHECKS.items():
            if (only is not None and name not in only) or (name in SLOW and not slow):
                continue
            if name in ONCE and (case.alias, name) in seen:
                continue
            seen.add((case.alias, name))
            reason = (exceptions or {}).get(name) or case.exempt(name)
            found.append(Check(name, case, function, reason, name in SLOW, device))
    return found


def method_checks(
    method: str | None = None,
    *,
    only: Collection[str] | None = None,
    exceptions: dict[str, str] | None = None,
    **params: Any,
) -> list[Check]:
    """List the checks of a level method, for ``pytest.mark.parametrize``.

    Args:
        method: Alias; ``None`` for all methods of tgp and all registered ones.
        only: Names of checks; all if ``None``.
        exceptions: Reasons why checks do not hold for this method, by name of the check.
        **params: Parameters of the method.

    Returns:
        One check per name and method.

    Raises:
        UnknownNameError: If ``only`` or ``exceptions`` names a check that does not exist.
    """
    from tgp.engine.methods import METHODS
    from tgp.testing.methods import METHOD_CHECKS, MethodCase

    _check_names(METHOD_CHECKS, only, exceptions)
    return [
        Check(name, case, function, (exceptions or {}).get(name))
        for case in [MethodCase(alias, params) for alias in ([method] if method else METHODS.entries)]
        for name, function in METHOD_CHECKS.items()
        if only is None or name in only
    ]


def _check_names(valid: Collection[str], *given: Collection[str] | None) -> None:
    """Raise if a name is no check. A misspelled name would run nothing, and nothing would fail."""
    for name in (name for names in given for name in names or ()):
        if name not in valid:
            raise UnknownNameError("check", name, valid)


def check_pooler(pooler: str | type, **options: Any) -> dict[str, str]:
    """Run all checks on a pooler.

    Args:
        pooler: Alias or class.
        **options: As in :func:`pooler_checks`.

    Returns:
        ``"passed"`` or the reason why a check was skipped, by name of the check. If the pooler has several modes, the
        names contain the mode.

    Raises:
        AssertionError: If checks fail. The message lists all of them.
    """
    return _run(pooler_checks(pooler, **options))


def check_method(method: str, **options: Any) -> dict[str, str]:
    """Run all checks on a level method.

    Args:
        method: Alias of the method.
        **options: As in :func:`method_checks`.

    Returns:
        ``"passed"`` or the reason why a check was skipped, by name of the check.

    Raises:
        AssertionError: If checks fail. The message lists all of them.
    """
    return _run(method_checks(method, **options))


def _run(checks: list[Check]) -> dict[str, str]:
    results, failures = {}, []
    single = len({str(check.case) for check in checks}) == 1
    for check in checks:
        name = check.name if single else str(check)
        try:
            check()
            results[name] = "passed"
        except Skip as reason:
            results[name] = f"skipped: {reason}"
        except Exception as error:  # noqa: BLE001 - a check fails with any exception
            failures.append(f"{check}: {type(error).__name__}: {error}")
    if failures:
        raise AssertionError(f"{len(failures)} of {len(checks)} checks fail:\n" + "\n".join(failures))
    return results
