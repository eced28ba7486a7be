"""Comparison of two releases of tgp in two interpreters, which run one step at a time and alternate."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable

__all__ = ["Server", "serve"]


class Server:
    """Interpreter that runs ``script`` with ``--serve`` and answers requests; see :func:`serve`."""

    def __init__(self, python: str, script: str, *arguments: str) -> None:
        command = [python, "-W", "ignore", os.path.abspath(script), "--serve", *arguments]
        # PYTHONPATH names the tgp of this interpreter. It must not decide which tgp another one imports.
        hidden = () if python == sys.executable else ("PYTHONPATH",)
        environment = {name: value for name, value in os.environ.items() if name not in hidden}
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        self.version = f"tgp {str(self.ask('version', '')).partition('rc')[0]}"

    def ask(self, what: str, name: str) -> float | str:
        """Return the answer to a request.

        Raises:
            RuntimeError: If the interpreter reports an error.
        """
        assert self.process.stdin and self.process.stdout
        print(json.dumps([what, name]), file=self.process.stdin, flush=True)
        answer = json.loads(self.process.stdout.readline())
        if isinstance(answer, dict):
            raise RuntimeError(answer["error"])
        return answer

    def close(self) -> None:
        """Stop the interpreter."""
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()


def serve(answer: Callable[[str, str], object]) -> None:
    """Answer the requests of a :class:`Server` with ``answer(what, name)`` until its pipe is closed."""
    import tgp

    for line in sys.stdin:
        what, name = json.loads(line)
        try:
            found: object = tgp.__version__ if what == "version" else answer(what, name)
        except (RuntimeError, ValueError, AssertionError, ImportError) as error:
            found = {"error": f"{name}: {error}"}
        print(json.dumps(found), flush=True)
