"""Properties of all commands: help, errors, exit statuses, streams and imports."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
from importlib import import_module

import pytest
from typer.testing import CliRunner

from tgp._version import __version__
from tgp.errors import DatasetError, StoreDamagedError, StoreFullError, StoreMismatchError, TgpError
from tgp_cli._errors import ExitStatus, Terminated, guard, set_debug, status_of
from tgp_cli._output import Output, seconds_text, sparkline
from tgp_cli.main import COMMANDS, build_app, examples, run

ALL = pytest.mark.parametrize("name", COMMANDS)


def tgp(*arguments, **options):
    """Run ``tgp`` as a process."""
    return subprocess.run(
        [sys.executable, "-m", "tgp_cli.main", *map(str, arguments)],
        capture_output=True,
        text=True,
        **options,
    )


def invoke(*arguments):
    return CliRunner().invoke(build_app(arguments), [str(a) for a in arguments])


def test_help_lists_every_command(capsys):
    assert run(["--help"]) == 0
    out = capsys.readouterr().out
    for name, entry in COMMANDS.items():
        assert name in out and entry.help in out


@ALL
def test_help_line_equals_the_docstring(name):
    module = import_module(COMMANDS[name].module)
    assert module.command.__doc__.splitlines()[0] == COMMANDS[name].help


@ALL
def test_commands_are_short_and_have_help_and_examples(name):
    module = import_module(COMMANDS[name].module)
    with open(module.__file__) as file:
        assert len(file.readlines()) <= 150
    result = invoke(name, "--help")
    assert result.exit_code == 0
    assert COMMANDS[name].help in result.output and "--debug" in result.output
    assert "Example" in result.output


@ALL
@pytest.mark.parametrize("columns", ["60", "200"])
def test_help_prints_one_line_per_example(name, columns, monkeypatch):
    monkeypatch.setenv("COLUMNS", columns)
    shown = examples(import_module(COMMANDS[name].module).EPILOG)
    lines = invoke(name, "--help").output.rstrip().splitlines()
    assert [line.strip() for line in lines[-len(shown) :]] == shown
    assert all(line.startswith(("tgp ", "sbatch ")) and " | " not in line for line in shown)
    assert lines[-len(shown) - 1].strip() == ("Examples:" if len(shown) > 1 else "Example:")


def test_version():
    result = tgp("--version")
    assert (result.returncode, result.stdout, result.stderr) == (0, f"tgp {__version__}\n", "")


def test_unknown_command_suggests_the_nearest():
    result = tgp("coarsn")
    assert (result.returncode, result.stdout) == (2, "")
    assert "Did you mean 'coarsen'?" in result.stderr and "Traceback" not in result.stderr


def test_unknown_option_suggests_the_nearest():
    result = tgp("coarsen", "--poolr", "ndp")
    assert (result.returncode, result.stdout) == (2, "")
    assert "--pooler" in result.stderr and "Traceback" not in result.stderr


def test_missing_argument():
    result = tgp("verify")
    assert result.returncode == 2 and "STORE" in result.stderr


LIGHT = [
    ("--help",),
    ("--version",),
    ("poolers",),
    ("poolers", "graclus"),
    ("datasets",),
    ("coarsen", "--help"),
    ("nothing",),
]


@pytest.mark.parametrize("arguments", LIGHT, ids=" ".join)
def test_light_commands_import_nothing_heavy(arguments):
    heavy = loaded_after(arguments)
    assert heavy & {"torch", "torch_geometric", "numba", "h5py", "scipy"} == set()


def loaded_after(arguments):
    code = (
        "import sys; from tgp_cli.main import run; status = run(sys.argv[1:]); "
        "print('\\n' + ' '.join(m for m in ('torch', 'torch_geometric', 'numba', 'h5py', 'scipy', 'rich') if m in sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True
    )
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (DatasetError("x"), ExitStatus.USAGE),
        (StoreMismatchError("x"), ExitStatus.USAGE),
        (StoreDamagedError("x"), ExitStatus.FINDINGS),
        (StoreFullError("x"), ExitStatus.NO_SPACE),
        (OSError(28, "No space left on device"), ExitStatus.NO_SPACE),
        (PermissionError(13, "Permission denied", "f"), ExitStatus.USAGE),
        (KeyboardInterrupt(), ExitStatus.INTERRUPTED),
        (Terminated(), ExitStatus.TERMINATED),
        (ZeroDivisionError("x"), ExitStatus.BUG),
    ],
)
def test_errors_have_a_status_and_no_traceback(error, status, capsys):
    import typer

    def command():
        raise error

    assert status_of(error) is status
    with pytest.raises(typer.Exit) as caught:
        guard(command)()
    assert caught.value.exit_code == status
    err = capsys.readouterr().err
    assert "Traceback" not in err and err.startswith(("Error: ", "Interrupted"))


LOST_SIGNAL = """
import os, sys, time
from tgp_cli import _errors
from tgp_cli._errors import catch_signals, guard

_errors._RESEND_DELAY = float(sys.argv[2])

class Last:
    def __del__(self):
        os.kill(os.getpid(), int(sys.argv[1]))
        time.sleep(0)  # the handler runs here, where its exception is lost

def command():
    Last()
    time.sleep(60)

catch_signals()
try:
    guard(command)()
except BaseException as end:
    os._exit(end.exit_code)
"""


@pytest.mark.parametrize("delay", [0.01, 0.0])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_during_a_destructor_still_ends_the_command(number, delay):
    """Without a delay the signal is sent while Python still reports the lost exception."""
    arguments = [sys.executable, "-c", LOST_SIGNAL, str(int(number)), str(delay)]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=600)
    assert done.returncode == 128 + number
    assert done.stderr == "Interrupted. Run the same command again to continue.\n"


def test_messages_carry_hints_and_debug_shows_the_traceback(capsys, monkeypatch):
    import typer

    from tgp_cli import _errors

    def command():
        raise TgpError("something is off", hint="do this")

    with pytest.raises(typer.Exit):
        guard(command)()
    assert capsys.readouterr().err == "Error: something is off\nHint: do this\n"
    monkeypatch.setitem(_errors._debug, "on", False)
    set_debug(True)
    with pytest.raises(typer.Exit):
        guard(command)()
    assert "Traceback" in capsys.readouterr().err


def test_an_error_caused_by_a_full_disk_has_its_status(capsys):
    import typer

    def command():
        try:
            raise OSError(28, "No space left on device")
        except OSError as error:
            raise TgpError("cannot write x") from error

    with pytest.raises(typer.Exit) as caught:
        guard(command)()
    assert caught.value.exit_code == ExitStatus.NO_SPACE
    assert capsys.readouterr().err.splitlines()[1].startswith("Hint: free some space")


def test_json_has_no_nan(capsys):
    import numpy as np

    Output(json=True).result(
        {"a": np.float32(0.5), "b": float("nan"), "c": np.arange(2), "d": (1, None)}, lambda: None
    )
    assert json.loads(capsys.readouterr().out) == {"a": 0.5, "b": None, "c": [0, 1], "d": [1, None]}


def test_quiet_prints_no_result(capsys):
    Output(quiet=True).result({}, lambda: print("table"))
    Output(quiet=True).message("hello")
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""


def test_durations_and_sparklines(capsys):
    assert [seconds_text(s) for s in (0.000123, 0.0123, 3.42, 125, 7300)] == [
        "0.12 ms",
        "12 ms",
        "3.4 s",
        "2 min 5 s",
        "2 h 1 min",
    ]
    assert sparkline([]) == "" and len(sparkline([1, 0, 4])) == 3


def in_terminal(arguments, **environment):
    """Run ``tgp`` with a terminal as stdout and stderr, and return its output."""
    parent, child = pty.openpty()
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "200", **environment}
    process = subprocess.Popen(
        [sys.executable, "-m", "tgp_cli.main", *arguments], stdout=child, stderr=child, env=env
    )
    os.close(child)
    pieces = []
    while True:
        try:
            piece = os.read(parent, 65536)
        except OSError:
            break
        if not piece:
            break
        pieces.append(piece)
    os.close(parent)
    assert process.wait() == 0
    return b"".join(pieces).decode()


def test_tables_have_rules_only_in_a_terminal():
    piped = tgp("poolers").stdout
    assert "\x1b" not in piped and "─" not in piped
    shown = in_terminal(["poolers"])
    assert "─" in shown and "graclus" in shown
    assert "\x1b[" in shown
    assert "\x1b[3" not in in_terminal(["poolers"], NO_COLOR="1")


def test_a_terminal_without_unicode(tmp_path):
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    shown = in_terminal(
        ["coarsen", "-d", "er:num_graphs=5", "-p", "nopool", "-o", str(tmp_path / "s")], **plain
    )
    shown += in_terminal(["inspect", str(tmp_path / "s")], **plain)
    assert shown.isascii() and "\\u" not in shown and "loading kernels" in shown


@pytest.mark.parametrize("columns", ["30", "60", "90"])
@pytest.mark.parametrize("words", [["poolers"], ["datasets", "reddit"], ["poolers", "graclus"]], ids=" ".join)
def test_a_narrow_terminal_does_not_cut_names(words, columns):
    shown = in_terminal(words, COLUMNS=columns)
    assert "…" not in shown
    whole = {"poolers": "graclus", "datasets": "REDDIT-MULTI-12K"}[words[0]]
    assert whole in shown and ("remove_self_loops" in shown or len(words) == 1 or "reddit" in words)
    assert max(len(line) for line in re.sub(r"\x1b\[[0-9;]*m", "", shown).splitlines()) <= 90


@pytest.mark.parametrize("columns", ["60", "80", "120"])
@pytest.mark.parametrize("more", [[], ["--all", "--spectral"], ["--graph", "1"]], ids=" ".join)
def test_inspect_fits_the_terminal_without_broken_words(store_of_two, more, columns):
    shown = re.sub(r"\x1b\[[0-9;]*m", "", in_terminal(["inspect", store_of_two, *more], COLUMNS=columns))
    assert max(len(line) for line in shown.splitlines() if store_of_two not in line) <= int(columns)
    words = set(shown.split())
    piped = set(tgp("inspect", store_of_two, *more).stdout.split())
    keys = {"hierarchy", "level", "method"}  # lists have no headings
    assert {word for word in piped if word.isalpha()} - keys <= words


@pytest.fixture(scope="module")
def store_of_two(tmp_path_factory):
    out = str(tmp_path_factory.mktemp("s") / "er")
    dataset = "er:num_graphs=12:num_nodes=20:degree=3"
    assert tgp("coarsen", "-d", dataset, "-p", "ndp,eigen", "-p", "graclus*2", "-o", out).returncode == 0
    return out


def test_results_and_messages_keep_their_order_in_one_file(tmp_path):
    command = f"{sys.executable} -m tgp_cli.main inspect 2>&1"
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, env=buffered(), cwd=tmp_path
    )
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["No", "Hint:"]


def test_progress_is_shown_only_in_a_terminal(tmp_path):
    arguments = ["coarsen", "-d", "er:num_graphs=5", "-p", "nopool", "-o"]
    piped = tgp(*arguments, tmp_path / "a")
    assert "loading kernels" not in piped.stderr and "5 graphs" in piped.stdout
    assert "loading kernels" in in_terminal([*arguments, str(tmp_path / "b")])
    quiet = in_terminal([*arguments, str(tmp_path / "c"), "--quiet"])
    assert quiet.replace("\x1b[0m", "") == ""  # numba resets the colour of a terminal when it ends


def buffered(**more):
    """Return an environment in which Python buffers its output."""
    return {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"} | more


@pytest.mark.parametrize("command", ["datasets --json | head -n 1", "--help | true", "poolers | true"])
def test_a_closed_pipe_prints_no_error(command):
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m tgp_cli.main {command}"],
        capture_output=True,
        text=True,
        env=buffered(),
    )
    assert done.stdout.strip() in ("", "[") and done.stderr == ""


PRINTING = [("--help",), ("--version",), ("coarsen", "--help"), ("poolers",), ("datasets", "--json")]


@pytest.mark.parametrize("more", [{}, {"PYTHONUNBUFFERED": "1"}], ids=["buffered", "unbuffered"])
@pytest.mark.parametrize("words", PRINTING, ids=" ".join)
def test_a_closed_pipe_exits_with_141(words, more):
    assert run_on_closed_pipe(words, buffered(**more)) == (141, "")


def run_on_closed_pipe(words, env):
    """Run ``tgp`` with a closed pipe as stdout, and return its status and messages."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "tgp_cli.main", *map(str, words)],
            stdout=writing,
            stderr=subprocess.PIPE,
            text=True,
            env=env,
        )
    finally:
        os.close(writing)
    return done.returncode, done.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("words", ["--help >/dev/full", "poolers >/dev/full", "nothing 2>/dev/full"])
def test_output_to_a_full_disk_exits_with_4(words):
    command = f"{sys.executable} -m tgp_cli.main {words}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, env=buffered())
    assert done.returncode == 4 and "Traceback" not in done.stderr and "Exception" not in done.stderr
    assert "2>" in words or done.stderr.startswith("Error: no space left")


@pytest.mark.parametrize(("words", "status"), [("poolers graclus >&-", 0), ("nothing 2>&-", 2)])
def test_streams_that_are_closed_before_the_start(words, status):
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m tgp_cli.main {words}"],
        capture_output=True,
        text=True,
        env=buffered(),
    )
    assert (done.returncode, done.stdout, done.stderr) == (status, "", "")


def test_completion_knows_the_commands():
    env = {**os.environ, "_TGP_COMPLETE": "complete_bash", "COMP_WORDS": "tgp in", "COMP_CWORD": "1"}
    assert "inspect" in tgp(env=env).stdout
