"""The generated pages are those of today's code."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_reference_is_up_to_date():
    words = [sys.executable, str(ROOT / "docs/_tools/reference.py"), "--check"]
    done = subprocess.run(
        words, capture_output=True, text=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert done.returncode == 0, f"{done.stdout}{done.stderr}\nrun: python docs/_tools/reference.py"
