"""Commands in a pseudoterminal, and their recorded screens in ``tests/cli/screens``.

Run ``python -m tests.cli.screens`` to record the screens again.
"""

import os
import re
import struct
import subprocess

CONTROL = re.compile(r"\x1b\[[0-9;?]*([A-Za-z])|\x1b\][^\x07]*\x07|[\r\n]|[^\x1b\r\n]+|\x1b")


def run_in_terminal(command, columns, *, rows=50, cwd=None, env=None, stdin=b"", on_output=None):
    """Run a command in a pseudoterminal of the given width and return what it wrote.

    Args:
        command: Words of the command.
        columns: Width of the terminal.
        rows: Height of the terminal.
        cwd: Working directory.
        env: Variables to set; ``None`` as a value removes one.
        stdin: Keys that are pressed at once.
        on_output: Function that is called with all output so far, after each piece.
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
    process.wait()
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
