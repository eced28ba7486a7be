"""Usage errors quote arguments of the command line with control characters escaped."""

import re

import pytest

from tgp_cli import main

BAD = "a\x1b[31m\x9b\x07\r\u202eb"


@pytest.mark.parametrize(
    "words",
    [
        [f"--{BAD}"],
        ["inspect", f"--{BAD}"],
        ["inspect", "x", BAD],
        ["inspect", "x", "--graph", BAD],
        ["inspect", "x", f"--json={BAD}"],
        ["verify", "x", f"-{BAD}"],
        ["verify", "x", "--sample", BAD],
        ["status", f"http://host/{BAD}"],
        ["coarsen", "--out", f"s3://{BAD}"],
        ["coarsen", BAD],
        ["plot", "x", "--dpi", BAD],
        ["export", "x", "--to", BAD],
    ],
    ids=lambda words: " ".join(words).replace(BAD, "BAD"),
)
def test_usage_errors_are_inert(words, capsys):
    assert main.run(words) == 2
    found = capsys.readouterr()
    assert found.out == "" and "Error: " in found.err
    assert re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", found.err) is None, repr(found.err)
