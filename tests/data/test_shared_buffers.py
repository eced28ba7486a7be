"""Shared memory that is used again."""

import pytest
import torch

from tgp.data import shared_buffers as slots
from tgp.data.pack import Packed
from tgp.data.shared_buffers import InSlot, SharedBuffers, forget


def sent(message):
    """The message as the receiver gets it; the memory stays shared."""
    other = InSlot.__new__(InSlot)
    other.__setstate__(message.__getstate__())
    return other


@pytest.fixture
def worker():
    yield SharedBuffers(-1, 0, limit=2)
    forget(-1)
    assert not [key for key in slots._seen if key[0] == -1]


def test_a_slot_travels_once_and_is_used_again(worker):
    for number in range(4):
        message = worker.pack([torch.full((3,), number), "text"])
        assert (message.slot is not None) == (number == 0)
        got, text = sent(message).unpack()
        assert got.tolist() == [number] * 3
        assert text == "text"


def test_what_was_taken_is_not_overwritten(worker):
    first = sent(worker.pack(torch.zeros(5))).unpack()
    sent(worker.pack(torch.ones(5))).unpack()
    assert first.tolist() == [0] * 5


def test_without_a_free_slot_there_is_new_memory(worker):
    held = [worker.pack(torch.full((2,), number)) for number in range(3)]
    assert [type(message) for message in held] == [InSlot, InSlot, Packed]
    assert [m.key for m in held[:2]] == [(-1, 0, 0), (-1, 0, 1)]
    assert sent(held[1]).unpack().tolist() == [1, 1]
    assert worker.pack(torch.zeros(2)).key == (-1, 0, 1)
    assert sent(held[0]).unpack().tolist() == [0, 0]


def test_a_larger_batch_replaces_its_slot(worker):
    sent(worker.pack(torch.zeros(2))).unpack()
    large = torch.arange(100_000)
    message = worker.pack(large)
    assert message.slot is not None
    assert torch.equal(sent(message).unpack(), large)
    assert worker.pack(large).slot is None


def test_a_batch_that_is_thrown_away_frees_its_slot(worker):
    messages = [worker.pack(torch.zeros(2)) for _ in range(2)]
    arrived = [sent(message) for message in messages]
    assert isinstance(worker.pack(torch.zeros(2)), Packed)
    del arrived
    assert isinstance(worker.pack(torch.zeros(2)), InSlot)


def test_a_message_in_the_worker_frees_nothing(worker):
    message = worker.pack(torch.zeros(2))
    slot = message.slot
    del message
    assert slot[0] == 1


def test_a_batch_is_taken_once(worker):
    message = sent(worker.pack(torch.zeros(2)))
    message.unpack()
    with pytest.raises(AssertionError, match="once"):
        message.take()
