"""The page on the file format: its example runs, and it names every array, word and limit of the code."""

import re
from pathlib import Path
from urllib.parse import unquote

import h5py
import numpy as np
import pytest

from tgp.store.format import constants as fmt
from tgp.testing.stores import build_store, halving, random_table

PAGE = Path(__file__).resolve().parents[2] / "docs" / "fileformat.md"


@pytest.fixture(scope="module")
def page():
    return PAGE.read_text()


def test_the_example_of_the_page_reads_a_store(page, tmp_path, monkeypatch, profile):
    (example,) = re.findall(r"```python\n(.+?)```", page, re.S)
    assert len(example.strip().splitlines()) <= 20
    assert "tgp" not in example.replace("tgp-store", "")
    table = random_table(9, seed=3)
    build_store(tmp_path / "pooled/MUTAG", table, profile=profile)
    monkeypatch.chdir(tmp_path)
    scope = {}
    exec(example, scope)
    last = table.take([8])
    level = halving(last).levels[0]
    np.testing.assert_array_equal(scope["x"], last.fields["x"].values)
    np.testing.assert_array_equal(scope["cluster"], level.assignment.cluster)
    np.testing.assert_array_equal(scope["coarse_edges"], level.block.edge_index())


def test_the_page_names_every_array_and_limit(page):
    for name in ("super_ptr", "edge_ptr", "edge_index", *fmt.LEVEL_ARRAYS):
        assert f"`/levels/<l>/{name}`" in page
    for word in (*fmt.FORMS, *fmt.KINDS, *fmt.PTRS, *fmt.PROFILES):
        assert f"`{word}`" in page
    assert f"Format version: **{fmt.VERSION}.{fmt.MINOR}**" in page
    limits = (
        fmt.MAX_UNITS,
        fmt.MAX_LEVELS,
        fmt.MAX_METRICS,
        fmt.MAX_NAME,
        fmt.MAX_JSON_VALUES,
        fmt.MAX_OBJECTS,
    )
    for limit in (*limits, fmt.MAX_ATTRIBUTES, fmt.MAX_ATTRIBUTE_BYTES, fmt.MAX_RATIO, fmt.ROWS_PER_BYTE):
        assert f"{limit:,}" in page, limit
    for limit in (fmt.MAX_COUNT, fmt.MAX_WIDTH, fmt.MAX_ROW_BYTES, fmt.FREE_ROWS):
        assert f"2^{limit.bit_length() - 1}" in page, limit
    assert f"first and last {fmt.END_BYTES}" in page
    assert f"multiple of {fmt.ALIGNMENT} bytes" in page


def test_the_page_describes_every_object_of_a_file(page, tmp_path, table):
    build_store(tmp_path, table)
    found = []
    for part in ("graphs", "halve"):
        with h5py.File(tmp_path / f"shard-00000.{part}.h5") as file:
            file.visit(found.append)
    for path in found:
        general = re.sub(r"levels/\d+", "levels/<l>", re.sub(r"(fields|ptr)/.+", r"\1/<name>", path))
        general = re.sub(r"metrics/\d+/.+", "metrics/<l>/<name>", general)
        assert (
            general in {"fields", "ptr", "levels", "levels/<l>", "metrics"}
            or re.fullmatch(r"metrics/\d+", general)
            or f"`/{general}`" in page
        ), path


def test_encoded_names_are_valid_links_and_can_be_decoded():
    for name in ("x", "a/b", ".", "..", "größe", "%2F", "a b", "1"):
        assert unquote(fmt.encode_name(name)) == name
        assert "/" not in fmt.encode_name(name)
        assert "." not in fmt.encode_name(name)
