"""Commands in a pseudoterminal, and their recorded screens in ``tests/cli/screens``.

Run ``python -m tests.cli.screens`` to record all screens again, or ``python -m tests.cli.screens NAME ...`` for some of them.
"""

import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

FOLDER = Path(__file__).parent / "screens"
WIDTHS = (60, 80, 120)
TGP = (sys.executable, "-m", "tgp_cli.main")
DATA = ("-d", "molecules:num_graphs=60")

CONTROL = re.compile(r"\x1b\[[0-9;?]*([A-Za-z])|\x1b\][^\x07]*\x07|[\r\n]|[^\x1b\r\n]+|\x1b")


def run_in_terminal(command, columns, *, rows=50, cwd=None, env=None, stdin=b"", on_output=None, status=None):
    """Run a command in a pseudoterminal of the given width and return what it wrote.

    Args:
        command: Words of the command.
        columns: Width of the terminal.
        rows: Height of the terminal.
        cwd: Working directory.
        env: Variables to set; ``None`` as a value removes one.
        stdin: Keys that are pressed at once.
        on_output: Function that is called with all output so far, after each piece.
        status: List to which the exit status is appended.
    """
    import fcntl
    import pty
    import termios

    environment = {
        k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR")
    }
    environment |= {"TERM": "xterm", "LANG": "C.UTF-8", "PYTHONIOENCODING": "utf-8"} | (env or {})
    environment = {key: value for key, value in environment.items() if value is not None}
    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    process = subprocess.Popen(command, stdin=child, stdout=child, stderr=child, env=environment, cwd=cwd)
    os.close(child)
    if stdin:
        os.write(parent, stdin)
    text = b""
    try:
        while piece := os.read(parent, 65536):
            text += piece
            if on_output is not None:
                on_output(text.decode("utf-8", "replace"))
    except OSError:  # the other end is closed
        pass
    os.close(parent)
    code = process.wait()
    if status is not None:
        status.append(code)
    return text.decode("utf-8", "replace")


def written_lines(text):
    """Return the lines that a command wrote, without control sequences. The terminal breaks those that are too long."""
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text.replace("\r\n", "\n"))
    return [line.rpartition("\r")[2].rstrip() for line in plain.split("\n")]


def screen(text, columns):
    """Return the lines that a terminal shows after it received ``text``. A line that is too long is broken anywhere."""
    lines, row, column = [""], 0, 0
    for match in CONTROL.finditer(text):
        piece, final = match[0], match[1]
        if piece == "\r":
            column = 0
        elif piece == "\n":
            row, column = row + 1, 0
        elif final == "A":
            row = max(0, row - int(piece[2:-1] or 1))
        elif final == "K":
            lines[row] = lines[row][:column] if piece in ("\x1b[K", "\x1b[0K") else ""
        elif not piece.startswith("\x1b"):
            for character in piece:
                if column == columns:
                    row, column = row + 1, 0
                while len(lines) <= row:
                    lines.append("")
                lines[row] = lines[row][:column].ljust(column) + character + lines[row][column + 1 :]
                column += 1
        while len(lines) <= row:
            lines.append("")
    return [line.rstrip() for line in lines]


@dataclass(frozen=True)
class Screen:
    """Command whose output is recorded.

    Args:
        words: Arguments of ``tgp``.
        status: Expected exit status.
        frame: Text of a progress line that is recorded, too.
        slow: True if the command takes longer than a few seconds.
        env: Variables to set. ``{folder}`` is the working directory.
        limit: Largest size of a file in blocks of 1,024 bytes, as if the disk were full.
    """

    words: tuple[str, ...]
    status: int = 0
    frame: str | None = None
    slow: bool = False
    env: dict[str, str] = field(default_factory=dict)
    limit: int | None = None


SCREENS = {
    "first-run": Screen(
        (
            "coarsen",
            "-d",
            "er:num_graphs=60",
            "-p",
            "nopool",
            "--no-metrics",
            "--workers",
            "1",
            "-o",
            "pooled/first",
        ),
        frame="compiling kernel",
        slow=True,
        env={"NUMBA_CACHE_DIR": "{folder}/cache"},
    ),
    "long-run": Screen(
        (
            *("coarsen", "-d", "molecules:num_graphs=6000", "-p", "graclus*2", "-p", "ndp,eigen:k=24"),
            *("--shard-size", "1MB", "--workers", "1", "-o", "pooled/long"),
        ),
        frame="left",
        slow=True,
    ),
    "warnings": Screen(("coarsen", *DATA, "-p", "ndp,eigen:k=24", "-o", "pooled/warnings")),
    "up-to-date": Screen(("coarsen", *DATA, "-p", "graclus*2", "-p", "ndp", "-o", "pooled/demo")),
    "error-usage": Screen(("coarsen", "--poolerz", "graclus"), 2),
    "error-pooler": Screen(("coarsen", *DATA, "-p", "gracluss*2"), 2),
    "error-dataset": Screen(("coarsen", "-d", "mutagg"), 2),
    "error-mismatch": Screen(("coarsen", *DATA, "-p", "graclus*2", "--seed", "1", "-o", "pooled/demo"), 2),
    "error-damaged": Screen(("inspect", "pooled/damaged"), 1),
    "error-user-code": Screen(("coarsen", "-d", "mine.py:load", "-p", "graclus"), 2),
    "error-no-space": Screen(("coarsen", *DATA, "-p", "graclus*2", "-o", "pooled/full"), 4, limit=8),
    "inspect": Screen(("inspect", "pooled/demo")),
    "poolers": Screen(("poolers", "eigen")),
}


def make_folder(folder):
    """Write what the commands of the screens read: two stores and a file of the user."""
    (folder / "mine.py").write_text("def load():\n    graphs = {}\n    return graphs['train']\n")
    words = (*TGP, "coarsen", *DATA, "-p", "graclus*2", "-p", "ndp", "-o", "pooled/demo", "--quiet")
    subprocess.run(words, cwd=folder, check=True)
    shutil.copytree(folder / "pooled" / "demo", folder / "pooled" / "damaged")
    shard = next((folder / "pooled" / "damaged").glob("*.graclus-x2.h5"))
    shard.write_bytes(shard.read_bytes()[:-100])


def show(name, columns, folder):
    """Run the command of a screen.

    Returns:
        The exit status, the lines that were written, and the lines of the recorded screen.
    """
    wanted = SCREENS[name]
    frames = []
    if wanted.frame:  # a run at another width has left its store and its kernels
        for leftover in ("cache", wanted.words[-1]):
            shutil.rmtree(folder / leftover, ignore_errors=True)

    def keep_frame(text):
        last = written_lines(text)[-1]
        if wanted.frame in last and (not frames or frames[-1] != last):
            frames.append(last)

    words = [*TGP, *wanted.words]
    if wanted.limit is not None:
        words = ["bash", "-c", f'ulimit -f {wanted.limit}; exec "$@"', "bash", *words]
    env = {key: value.format(folder=folder) for key, value in wanted.env.items()}
    status = []
    on_output = keep_frame if wanted.frame else None
    text = run_in_terminal(words, columns, cwd=folder, env=env, on_output=on_output, status=status)
    lines = [line for line in screen(text, columns) if not line.startswith("\x1b")]
    while lines and not lines[-1]:
        lines.pop()
    shown = ["$ tgp " + " ".join(wanted.words), *frames[:1], *frames[len(frames) // 2 :][:1], *lines]
    return status[0], written_lines(text), shown


def record(names):
    """Record screens at all widths."""
    FOLDER.mkdir(exist_ok=True)
    for columns in WIDTHS:
        with tempfile.TemporaryDirectory(prefix="tgp") as folder:
            make_folder(Path(folder))
            for name in names:
                status, _, lines = show(name, columns, Path(folder))
                assert status == SCREENS[name].status, (name, status, lines)
                text = "\n".join(line.replace(folder, "FOLDER") for line in lines)
                (FOLDER / f"{name}-{columns}.txt").write_text(text + "\n")
                print(f"{name}-{columns}.txt", flush=True)


if __name__ == "__main__":
    record(sys.argv[1:] or SCREENS)
