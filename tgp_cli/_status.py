"""What the exit status of ``tgp`` means."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["ExitStatus"]


class ExitStatus(IntEnum):
    """Exit status of every command."""

    OK = 0
    FINDINGS = 1
    """The command ran and found something: damage, a missed threshold, a difference."""
    USAGE = 2
    """Wrong arguments, missing data, or a store made from something else."""
    PARTIAL = 3
    """Done, but some graphs or units are missing."""
    NO_SPACE = 4
    """The disk (or the quota) is full."""
    BUG = 70
    """Something nobody foresaw; ``--debug`` shows the traceback."""
    INTERRUPTED = 130
    CLOSED_PIPE = 141
    """Nobody reads the output any more; what a shell shows for a program that ``SIGPIPE`` ended."""
    TERMINATED = 143
