"""Names from a store, a dataset or a package never reach a terminal, a CSV file or a log with control characters."""

import ast
import csv
import io
import json
import os
import pty
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tgp_cli
from tgp.errors import Difference, StoreDamagedError, StoreMismatchError, TgpError, UnknownNameError
from tgp.ragged import GraphTable
from tgp.store import FailureRecord, Finding, StoreWriter
from tgp.testing.stores import forge_shard, halving, halving_spec, random_table, store_spec
from tgp_cli import _errors, main
from tgp_cli._output import Output
from tgp_cli._progress import Progress

BAD = (
    "evil\x1b]0;PWNED\x07\x1b[2J\x1b[31m\x9b31m\x08\x7f\r\nError: forged\tx"
    "\u202e\u2066\u200f\u061c\u200b\ufeff\u2028\U000e0041[red]$x_{$"
)
FORMULA = "=1+1"

HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff"
    "\U000e0000-\U000e007f]"
)


def assert_inert(text):
    assert HIDDEN.search(text) is None, repr(HIDDEN.search(text)) + repr(text[:2000])
    assert not [line for line in text.splitlines() if line.startswith("Error: forged")]


def write(path, method=BAD, *, name=BAD, publish=True, field=BAD):
    """Write a store whose names are all hostile."""
    table = random_table(6, seed=2)
    table = GraphTable(table.node_ptr, {**table.fields, field: replace(table.fields["x"], name=field)})
    spec = replace(
        store_spec(table, 1, hierarchies=[replace(halving_spec(), schedule=[_step(method)] * 3)]),
        dataset={"name": name, "source": BAD, BAD: BAD},
    )
    writer = StoreWriter.open(path, spec)
    writer.write_graphs(0, table)
    if publish:
        hierarchy = halving(table)
        levels = tuple(replace(one, method=method) for one in hierarchy.levels)
        writer.write_hierarchy(
            0, "halve", replace(hierarchy, levels=levels), metrics={f"0/{BAD}": np.zeros(6)},
            failures=[FailureRecord(3, 0, BAD)],
        )  # fmt: skip
        writer.publish()
    return path


def _step(method):
    return {"method": method, "params": {BAD: BAD}, "package": {"name": BAD, "version": BAD}}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return write(tmp_path_factory.mktemp("inert") / "store")


@pytest.fixture(scope="module")
def damaged(tmp_path_factory):
    path = write(tmp_path_factory.mktemp("inert") / "damaged")

    def edit(file):
        names = []
        file.visit(lambda name: names.append(name) if "evil" in name else None)
        del file[names[0]]

    forge_shard(path, edit)
    return path


def run(capsys, *arguments):
    """Run a command in this process and return its status, stdout and stderr."""
    status = main.run([str(a) for a in arguments])
    found = capsys.readouterr()
    return status, found.out, found.err


COMMANDS = [
    ["inspect", "STORE"],
    ["inspect", "STORE", "--graph", "3"],
    ["inspect", "STORE", "--spectral"],
    ["inspect", "STORE", "--csv"],
    ["inspect", "STORE", "--json"],
    ["inspect", "STORE", "--fail-if", "ratio>0"],
    ["inspect", "STORE", "--fail-if", f"{BAD}>0"],
    ["inspect", "STORE", "--hierarchy", BAD],
    ["inspect", "--diff", "STORE", "STORE"],
    ["verify", "STORE"],
    ["verify", "STORE", "--deep"],
    ["verify", "STORE", "--json"],
    ["status", "STORE"],
    ["merge", "STORE"],
    ["report", "STORE", "--out", "page.html"],
    ["export", "STORE", "--to", "npz", "--out", "out"],
    ["export", "STORE", "--to", "graphml", "--out", "out", "--graphs", "3"],
    ["export", "STORE", "--to", BAD, "--out", "out"],
    ["coarsen", "--dataset", BAD],
    ["coarsen", "--dataset", "er:num_graphs=6", "--pooler", BAD],
    ["coarsen", "--dataset", "er:num_graphs=6", "--pooler", "nopool", "--name", "halve", "--out", "STORE"],
    ["poolers", BAD],
    ["datasets", BAD],
    ["inspect", BAD],
    ["verify", BAD],
    [BAD],
]


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(words).replace(BAD, "BAD"))
def test_commands_print_no_control_characters(words, store, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(store, tmp_path / "STORE")
    status, out, err = run(capsys, *words)
    assert_inert(out)
    assert_inert(err)
    assert status != 70, err
    if words[:2] == ["inspect", "STORE"] and "--hierarchy" not in words and "--json" not in words:
        assert "\\x1b[31m" in out + err, "the name is shown, escaped"


def test_verify_names_damaged_items(damaged, capsys):
    status, out, err = run(capsys, "verify", damaged)
    assert status == 1 and "evil" in out
    assert_inert(out + err)


@pytest.mark.parametrize(
    "words", [["inspect"], ["inspect", "--graph", "3"], ["verify"], ["report"]], ids=" ".join
)
def test_errors_of_damaged_stores(words, damaged, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    status, out, err = run(capsys, words[0], damaged, *words[1:])
    assert_inert(out + err)
    assert status != 70, err


def test_stores_are_listed_with_escaped_names(store, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pooled").mkdir()
    shutil.copytree(store, tmp_path / "pooled" / "a\x1b[31m\nb")
    (tmp_path / "pooled" / "c\x1b]0;x\x07" / "records").mkdir(parents=True)
    status, out, err = run(capsys, "inspect")
    assert status == 0 and "a\\x1b[31m\\nb" in out
    assert_inert(out + err)


def test_the_report_contains_no_control_characters(store, capsysbinary, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main.run(["report", str(store), "--graphs", "0,3", "--out", "page.html"]) == 0
    capsysbinary.readouterr()
    assert main.run(["report", str(store), "--graphs", "0,3", "--out", "-"]) == 0
    page = (tmp_path / "page.html").read_bytes()
    assert capsysbinary.readouterr().out == page
    assert HIDDEN.search(page.decode()) is None and page.decode().count("PWNED") > 10


def test_an_unfinished_store(capsys, tmp_path):
    write(tmp_path / "s", publish=False)
    for words in (["status", tmp_path / "s"], ["merge", tmp_path / "s"], ["inspect", tmp_path / "s"]):
        status, out, err = run(capsys, *words)
        assert status in (2, 3)
        assert_inert(out + err)


@pytest.mark.parametrize(
    ("words", "columns"),
    [
        (["inspect", "STORE"], "40"),
        (["inspect", "STORE"], "240"),
        (["inspect", "STORE", "--graph", "3"], "40"),
        (["inspect", "STORE", "--graph", "3"], "240"),
        (["verify", "DAMAGED"], "80"),
        (["inspect", BAD], "80"),
    ],
    ids=lambda value: " ".join(value).replace(BAD, "BAD") if isinstance(value, list) else value,
)
def test_a_terminal_gets_only_the_colours_of_the_program(words, columns, store, damaged):
    places = {"STORE": str(store), "DAMAGED": str(damaged)}
    parent, child = pty.openpty()
    env = {**os.environ, "TERM": "xterm-256color", "COLUMNS": columns}
    process = subprocess.Popen(
        [sys.executable, "-m", "tgp_cli.main", *(places.get(w, w) for w in words)],
        stdout=child, stderr=child, env=env,
    )  # fmt: skip
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
    assert process.wait() in (0, 1, 2)
    text = b"".join(pieces).decode()
    assert "\x1b[31m" not in text and "\x1b[2J" not in text
    own = re.compile(
        r"\x1b\[[0-9;]*m|\x1b\[\?25[lh]|\x1b\[[0-9]*[KA]|\r"
    )  # colours, cursor and progress bar of Rich
    assert_inert(own.sub("", text))


def test_csv_cells_are_no_formulas(capsys, tmp_path):
    write(tmp_path / "s", method=FORMULA)
    _, out, _ = run(capsys, "inspect", tmp_path / "s", "--csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [row["method"] for row in rows] == ["'=1+1"] * 3
    assert not [cell for row in rows for cell in row.values() if cell[:1] in ("=", "+", "@", "\t")]
    assert float(rows[0]["ratio"]) < 1 and rows[0]["cluster_mean"] == ""


def test_csv_keeps_numbers_and_ordinary_text(capsys):
    Output().csv(
        ["a", "b"], [[-1.5, "größe"], ["-2e-3", "a,b"], [None, 'say "x"'], ["-rm", "a;=1"], [" =1", True]]
    )
    out = capsys.readouterr().out
    assert out.splitlines() == [
        "a,b",
        "-1.5,größe",
        '-2e-3,"a,b"',
        ',"say ""x"""',
        '"\'-rm","a;=1"',
        '"\' =1",True',
    ]


def test_markup_is_shown_literally(capsys, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    Output().table(["[red]head[/red]"], [["[bold]cell"]], title="[link=x]:smile:")
    out = capsys.readouterr().out
    assert "[red]head[/red]" in out and "[bold]cell" in out and "[link=x]:smile:" in out


def test_every_function_of_output_escapes(capsys):
    out = Output()
    out.message(BAD)
    out.warn(BAD)
    out.line(BAD)
    out.table([BAD, "b"], [[BAD, 1]], title=BAD)
    out.csv([BAD], [[BAD]])
    out.result({BAD: BAD}, lambda: None)
    Output(json=True).result({BAD: [BAD]}, lambda: None)
    with Progress(out) as progress:
        progress._logged -= 1000
        progress(BAD, 1, 2)
    found = capsys.readouterr()
    assert_inert(found.out + found.err)
    assert json.loads(found.out[found.out.index("\n{") :]) == {BAD: [BAD]}


ERRORS = [
    TgpError(BAD, hint=BAD),
    StoreDamagedError(BAD, path=BAD, item=BAD),
    StoreMismatchError(BAD, differences=[Difference("seed", BAD), Difference("x", "x\x1b[5m")]),
    UnknownNameError("field", "a", [BAD]),
    OSError(2, "gone", BAD),
    OSError(28, "full", BAD),
    KeyError(BAD),
    ValueError(BAD),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("debug", [False, True])
def test_error_messages_are_inert(error, debug, capsys, monkeypatch):
    monkeypatch.setitem(_errors._debug, "on", debug)
    _errors.report_error(error)
    err = capsys.readouterr().err
    assert HIDDEN.search(err) is None and "Error: " in err
    if not debug:  # a traceback may have several lines
        assert_inert(err)


def test_uncaught_errors_of_the_library_are_inert():
    code = f"from tgp.errors import StoreDamagedError\nraise StoreDamagedError({BAD!r}, item='x')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    last = done.stderr[done.stderr.index("tgp.errors.StoreDamagedError") :]
    assert HIDDEN.search(last) is None and "\\x1b[31m" in last


def test_only_bugs_have_the_status_of_a_bug(capsys):
    assert _errors.report_error(MemoryError()) == _errors.report_error(OSError(28, "full")) == 4
    assert capsys.readouterr().err.startswith("Error: out of memory.")


def test_attributes_of_errors_are_not_changed():
    error = StoreDamagedError(BAD, path=BAD, item=BAD, hint=BAD)
    assert error.path == error.item == error.hint == BAD
    assert str(error) == error.args[0] and "\n" in str(error)


def test_findings_keep_names_in_json(capsys, monkeypatch):
    monkeypatch.setattr("tgp.store.locations.verify_location", lambda _: [Finding("s", BAD, 3, BAD)])
    status, out, _ = run(capsys, "verify", "x", "--json")
    assert status == 1 and json.loads(out)["findings"][0]["message"] == BAD
    assert_inert(out)
    status, out, _ = run(capsys, "verify", "x")
    assert_inert(out)


def test_warnings_and_logs_are_inert():
    code = f"""
import logging, warnings
from tgp_cli._errors import guard
class TgpWarning(UserWarning): __module__ = "tgp.store"
def command():
    warnings.warn_explicit({BAD!r}, TgpWarning, {BAD!r}, 1)
    warnings.warn_explicit({BAD!r}, UserWarning, {BAD!r}, 1)
    logging.getLogger("stranger").warning({BAD!r})
guard(command)()
"""
    err = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stderr
    shown = err[: err.index("Traceback")]  # the exit of the command is not caught here
    assert HIDDEN.search(shown) is None and shown.count("PWNED") == 4
    assert shown.splitlines()[0].startswith("Warning: evil\\x1b") and "forged" in shown.splitlines()[0]


def test_a_huge_name_does_not_slow_down_a_table(capsys):
    Output().table(["a"], [["x" * 10_000_000]])
    assert len(capsys.readouterr().out) < 100_000


def test_commands_print_only_through_two_modules():
    """A command that prints by itself could print the name of a stranger."""
    folder = Path(tgp_cli.__file__).parent
    found = []
    for path in folder.rglob("*.py"):
        if path.name in ("_output.py", "_errors.py"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call):
                continue
            name = ast.unparse(node.func)
            if name in ("print", "typer.echo", "typer.secho") or re.search(
                r"std(out|err).*\.write|console\.print", name
            ):
                found.append(f"{path.name}: {ast.unparse(node)}")
    assert found == ["main.py: print(f'tgp {__version__}')"]
