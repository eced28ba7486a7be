"""The selection of tests for ``make quick``."""

import pytest

from tests.meta.changed import select_tests


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ([], []),
        (["tgp/store/read/reader.py"], ["tests/store"]),
        (["tgp/store/verify.py", "tests/store/test_verify.py"], ["tests/store"]),
        (["tests/store/test_verify.py"], ["tests/store/test_verify.py"]),
        (["tests/store/conftest.py"], ["tests/store"]),
        (["tgp_cli/main.py", "docs/index.md", "README.md"], ["tests/cli", "tests/docs"]),
        (["tgp/errors.py", "tests/store/test_deleted.py"], []),
    ],
)
def test_tests_of_changed_files(files, expected):
    assert select_tests(files) == sorted([*expected, "tests/meta"])
