"""Open inputs of the catalogue in a process with limits: ``python -m tests.sources.hostile_run FIRST``.

Prints the name of a case, then a line of JSON with its result. If a case kills the process, the caller starts it again
with the number of the next case.
"""

import contextlib
import io
import json
import resource
import signal
import socket
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path

EXTRA_MEMORY = 3 << 30
"""Address space that the cases may allocate, in bytes."""

SECONDS = 60
"""Processor seconds that a case may take, and seconds that it may wait. The slowest takes one."""

LIMIT = 8 * 10**6
"""Limit of the default budget during these tests, so that bombs are refused early."""

COMMAND_EVERY = 8
"""Every eighth case is also passed to ``tgp coarsen``."""


def through_library(dataset, root):
    """Open a dataset and return the class of the error."""
    from tgp.errors import TgpError
    from tgp.sources import open_source

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            open_source(dataset, root).table.to_block()
            result = {"kind": "accepted", "text": ""}
        except TgpError as error:
            result = {"kind": "TgpError", "text": str(error)}
        except Exception as error:  # noqa: BLE001 - reported
            result = {"kind": type(error).__name__, "text": "".join(traceback.format_exception(error))}
    return result | {"warnings": [str(w.message) for w in seen if w.category is not DeprecationWarning]}


def through_command(dataset, root, out):
    """Run ``tgp coarsen`` and return its exit status and messages."""
    from tgp_cli.main import run

    stderr = io.StringIO()
    with contextlib.redirect_stderr(stderr), contextlib.redirect_stdout(io.StringIO()):
        status = run(["coarsen", "--dataset", dataset, "--root", str(root), "--out", str(out), "-q"])
    return {"status": int(status), "text": stderr.getvalue()}


def limit_case():
    """Let the kernel end this process if the next case takes too long."""
    used = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
    resource.setrlimit(resource.RLIMIT_CPU, (int(used) + SECONDS, resource.RLIM_INFINITY))
    signal.alarm(SECONDS)


def refuse_network(*_, **__):
    """Replace the lookup of host names."""
    raise OSError("no network in this test")


def main(first):
    socket.getaddrinfo = refuse_network
    from tests.sources import hostile_files, hostile_objects  # noqa: F401

    with contextlib.suppress(ImportError):  # a version without limits
        import tgp.input_limits

        tgp.input_limits.MIN_LIMIT = LIMIT
    import tgp.build.run  # imported before the limit of memory is set
    import tgp.data.convert
    import tgp.sources.pyg

    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + EXTRA_MEMORY,) * 2)
    base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number, (name, write) in list(enumerate(hostile_files.CASES.items()))[first:]:
        print(json.dumps(name), flush=True)
        started = time.process_time()
        with tempfile.TemporaryDirectory() as folder:
            made = write(Path(folder))
            dataset, root = made if isinstance(made, tuple) else (str(made), Path(folder))
            limit_case()
            result = {"library": through_library(dataset, root)}
            if number % COMMAND_EVERY == 0:
                result["command"] = through_command(dataset, root, Path(folder, "out"))
            signal.alarm(0)
        result["seconds"] = time.process_time() - started
        result["memory"] = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - base) << 10
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
