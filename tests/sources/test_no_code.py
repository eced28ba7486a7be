"""no_code changes the readers of one thread only."""

import pickle
import threading
import types

import pytest
import torch

from tgp.errors import DatasetError
from tgp.sources.no_code import no_code


def test_other_threads_keep_the_original_readers(tmp_path):
    """Blocks of two threads overlap. Outside of its own block, the main thread reads a pickle of any class."""
    original = pickle.load, torch.load, input
    file = tmp_path / "any.pkl"
    file.write_bytes(pickle.dumps(types.SimpleNamespace(value=3)))
    inside, release = threading.Event(), threading.Event()
    refused = []

    def open_dataset():
        with no_code("outer"):
            inside.set()
            release.wait(600)
            with file.open("rb") as stream:
                try:
                    pickle.load(stream)
                except DatasetError as error:
                    refused.append(error)

    thread = threading.Thread(target=open_dataset)
    thread.start()
    assert inside.wait(600)
    with file.open("rb") as stream:
        assert pickle.load(stream).value == 3
    with no_code("inner"), file.open("rb") as stream, pytest.raises(DatasetError, match="SimpleNamespace"):
        pickle.load(stream)
    borrowed = pickle.load
    release.set()
    thread.join()
    assert len(refused) == 1
    assert (pickle.load, torch.load, input) == original
    with file.open("rb") as stream:
        assert borrowed(stream).value == 3


def test_no_code_can_be_nested(tmp_path):
    (tmp_path / "any.pkl").write_bytes(pickle.dumps(types.SimpleNamespace()))
    with no_code("outer"):
        with no_code("inner"):
            pass
        with (
            (tmp_path / "any.pkl").open("rb") as stream,
            pytest.raises(DatasetError, match="SimpleNamespace"),
        ):
            pickle.load(stream)
