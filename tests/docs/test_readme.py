"""Every command and snippet of the README runs."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", TEXT, flags=re.S)


def test_readme_is_short():
    assert len(TEXT.splitlines()) < 150


@pytest.mark.slow
def test_commands_and_snippets(tmp_path):
    """In order, in one folder, as a reader would."""
    commands = [
        line
        for kind, code in BLOCKS
        if kind == "bash"
        for line in code.splitlines()
        if line.startswith("tgp ")
    ]
    assert len(commands) >= 2
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    for line in commands:
        words = [sys.executable, "-m", "tgp_cli.main", *shlex.split(line)[1:]]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, env=environment)
        assert done.returncode == 0, f"{line}\n{done.stderr}"
    code = "\n".join(code for kind, code in BLOCKS if kind == "python")
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr


def test_make_targets_exist():
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"^make (\w+)", TEXT, flags=re.M):
        assert f"\n{target}:" in makefile


def test_links_lead_somewhere():
    for link in re.findall(r"\]\(([^)#]+)\)", TEXT):
        assert link.startswith("http") or (ROOT / link).exists(), link
