"""Completion of values, through the protocol that the scripts of the shells use."""

import os
import re
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from tgp.build.config import CoarsenConfig
from tgp.build.run import coarsen_dataset
from tgp_cli import _completion
from tgp_cli.main import COMMANDS, build_app, run


def bash_words(line):
    """Divide a line as bash does, with the default word breaks."""
    found = []
    for word in line.split(" "):
        found += [part for part in re.split(r"([:=]+)", word) if part] or [""]
    return found


@pytest.fixture
def complete(monkeypatch, capsys):
    def complete_line(line, shell="bash"):
        for name in ("COMP_WORDS", "COMP_CWORD", "_TYPER_COMPLETE_ARGS"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("_TGP_COMPLETE", f"complete_{shell}")
        if shell == "bash":
            words = bash_words(line)
            monkeypatch.setenv("COMP_WORDS", "\n".join(words))
            monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
        else:
            monkeypatch.setenv("_TYPER_COMPLETE_ARGS", line)
            monkeypatch.setenv("_TYPER_COMPLETE_FISH_ACTION", "get-args")
        assert run([]) == 0
        printed = capsys.readouterr()
        assert printed.err == ""
        return [text for text in printed.out.splitlines() if text]

    return complete_line


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    poolers, out = ("graclus*2", "nopool"), tmp_path / "pooled" / "mine"
    coarsen_dataset(CoarsenConfig("er:num_graphs=4", out=out, poolers=poolers, names=("pairs", "same")))
    return out


CASES = {
    "tgp coarsen --pooler gr": ["graclus"],
    "tgp coarsen -p ndp,eig": ["ndp,eigen"],
    "tgp coarsen -p ndp*2,k": ["ndp*2,kmis"],
    "tgp coarsen -p graclus*": ["graclus*", "graclus*2", "graclus*3", "graclus*4", "graclus*5"],
    "tgp coarsen -p graclus:ord": ["order=random", "order=degree", "order=index"],
    "tgp coarsen -p graclus:order=d": ["degree"],
    "tgp coarsen -p lv:sets=n": ["neighborhoods"],
    "tgp coarsen -p ndp,kmis:order_k=2:force": ["force_undirected=true", "force_undirected=false"],
    "tgp coarsen --pooler=gra": ["graclus"],
    "tgp coarsen --pooler=graclus:order=i": ["index"],
    "tgp coarsen -p eigen:k": ["k=8"],
    "tgp coarsen -p eigen:k=4:k": [],
    "tgp coarsen -p mincut": [],  # cannot be precomputed
    "tgp coarsen -p nothing:k": [],
    "tgp coarsen -d mole": ["molecules"],
    "tgp coarsen -d molecules:num": ["num_graphs=500"],
    "tgp coarsen -d MUT": ["MUTAG"],
    "tgp coarsen --profile ": ["fast", "small"],
    "tgp coarsen --carry a": ["auto"],
    "tgp coarsen --carry auto,pos=m": ["max", "mean", "min", "majority"],
    "tgp export --to ": ["graphml", "npz", "pyg"],
    "tgp poolers minc": ["mincut"],
    "tgp poolers --dataset PROTEINS_": ["PROTEINS_full"],
    "tgp inspect --fail-if mod": ["modularity"],
    "tgp do": ["doctor"],
    "tgp poolers --cho": ["--choose"],
}


@pytest.mark.parametrize("line", CASES)
def test_bash(complete, line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert sorted(complete(line)) == sorted(CASES[line])


def test_zsh_and_fish_get_whole_words_with_descriptions(complete):
    (found,) = complete("tgp coarsen -p graclus:order=de", "fish")
    assert found.startswith("graclus:order=degree\tOrder in which nodes are visited")
    assert "graclus" in "".join(complete("tgp coarsen -p ndp,gracl", "zsh"))


def test_files_and_folders(complete, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "graphs.npz").touch()
    (tmp_path / "graphs").mkdir()
    (tmp_path / "graphs" / "a.csv").touch()
    (tmp_path / "graphs$(touch owned).npz").touch()  # the script for zsh evaluates the reply
    assert complete("tgp coarsen -d graph") == ["graphs/", "graphs.npz"]
    assert complete("tgp coarsen -d graphs/") == ["graphs/a.csv"]
    assert "MUTAG" in complete("tgp coarsen -d ")


def test_stores_and_their_hierarchies(complete, store):
    assert complete("tgp inspect ") == ["pooled/mine"]
    assert complete("tgp verify po") == ["pooled/mine"]
    for command in ("inspect", "export", "plot"):
        assert complete(f"tgp {command} pooled/mine --hierarchy ") == ["pairs", "same"]
    assert complete("tgp inspect --hierarchy ") == []
    assert complete("tgp inspect http://example.invalid/store --hierarchy ") == []


def test_damage_gives_no_completions(complete, store):
    (store / "manifest.json").write_text("{")
    assert complete("tgp inspect pooled/mine --hierarchy ") == []


def test_names_of_a_store_that_a_shell_would_evaluate_are_not_offered(complete, store, monkeypatch):
    import tgp.store.format.manifest as manifest

    class Spec:
        hierarchies = [
            type("H", (), {"name": name})() for name in ("$(id)", "a b", "\x1b[2J", "`id`", "good-1")
        ]

    monkeypatch.setattr(manifest, "read_spec", lambda path: Spec)
    assert complete("tgp inspect pooled/mine --hierarchy ") == ["good-1"]


def test_a_completion_never_raises(complete, monkeypatch):
    import tgp.inspect.catalog as catalog

    def broken(*args, **kwargs):
        raise RuntimeError("broken package")

    monkeypatch.setattr(catalog, "list_poolers", broken)
    assert complete("tgp coarsen -p g") == [] and complete("tgp poolers g") == []


@pytest.mark.parametrize(
    "text", ["", ",", ":", "*", "a:b:c=", "graclus::", "graclus:=", "ndp,,", "é", "x" * 5000, "-"]
)
def test_any_text_can_be_completed(text):
    for name in ("complete_schedules", "complete_datasets", "complete_poolers", "complete_stores"):
        assert isinstance(getattr(_completion, name)(text), list)


@pytest.mark.parametrize("line", ["tgp coarsen -p graclus:", "tgp coarsen -d M", "tgp poolers ", "tgp "])
def test_completion_imports_nothing_heavy(line):
    words = bash_words(line)
    env = {**os.environ, "_TGP_COMPLETE": "complete_bash"}
    env.update(COMP_WORDS="\n".join(words), COMP_CWORD=str(len(words) - 1))
    code = (
        "import sys\nfrom tgp_cli.main import run\nrun([])\n"
        "assert not {'torch', 'numba', 'h5py', 'scipy'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0 and done.stdout.strip(), done.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_help_shows_names_instead_of_python_types(name):
    shown = CliRunner().invoke(build_app([name]), [name, "--help"]).stdout
    assert not re.search(r"<(str|int|float|bool|path|list|tuple)\b", shown, re.IGNORECASE)
