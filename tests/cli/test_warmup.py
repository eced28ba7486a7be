"""``tgp warmup``: kernels are compiled once, and the command says where they are."""

import json
from pathlib import Path

from typer.testing import CliRunner

from tgp.build import warmup
from tgp_cli.main import build_app


def invoke(*words):
    return CliRunner().invoke(build_app(words), words)


def test_a_second_call_finds_everything():
    first = json.loads(invoke("warmup", "--pooler", "nopool", "--json").stdout)
    assert first["poolers"] == ["nopool"] and first["num_files"] >= 3 and first["num_bytes"] > 0
    assert list(Path(first["path"]).glob("local_ids.join_rows-*.nbc"))
    again = invoke("warmup", "-p", "nopool")
    assert "1 pooler and of the loader: already compiled." in again.stdout
    assert first["path"] in again.stdout.replace("\n", "")


def test_the_default_is_every_method(monkeypatch):
    seen = []
    monkeypatch.setattr(warmup, "_compile", lambda header: seen.append(header) or 0.0)
    report = warmup.compile_kernels()
    assert {"graclus", "ndp", "kmis", "sep", "nmf", "eigen"} <= set(report.poolers)
    assert seen[0]["metrics"] and len(seen[0]["schedules"]) == len(report.poolers)


def test_without_a_directory_the_command_fails(monkeypatch):
    monkeypatch.setattr(warmup, "_compile", lambda header: 1.5)
    monkeypatch.setattr(warmup, "_cache_path", lambda: None)
    result = invoke("warmup")
    assert result.exit_code == 1 and "Set NUMBA_CACHE_DIR" in result.stdout


def test_an_unknown_pooler_is_refused():
    result = invoke("warmup", "--pooler", "graclsu")
    assert result.exit_code == 2 and "graclus" in result.stderr


def test_quiet_prints_nothing_but_the_result():
    assert invoke("warmup", "-p", "nopool", "--quiet").stderr == ""
