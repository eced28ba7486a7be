"""Transport of batches in one buffer, and reuse of shared buffers."""

import pytest
import torch

from tgp.data import shared_buffers
from tgp.data.shared_buffers import SharedBatch, SharedBuffers, release_buffers
from tgp.data.transport import Packed, pack


def sent(message):
    """Return the message in the form that the receiver gets. The memory stays shared."""
    other = SharedBatch.__new__(SharedBatch)
    other.__setstate__(message.__getstate__())
    return other


@pytest.fixture
def worker():
    yield SharedBuffers(-1, 0, limit=2)
    release_buffers(-1)
    assert not [key for key in shared_buffers._known_buffers if key[0] == -1]


def test_pack_keeps_tensors_of_any_layout_and_type():
    matrix = torch.eye(3).to_sparse()
    value = {
        "sparse": matrix,
        "strided": torch.arange(12).reshape(3, 4).t(),
        "zero": torch.zeros(0, 5),
        "half": torch.ones(3, dtype=torch.bfloat16),
        "scalar": torch.tensor(2.5),
        "same": matrix,
    }
    packed = pack(value)
    assert packed.buffer.dtype == torch.uint8
    back = packed.unpack()
    assert back["sparse"].is_coalesced() and torch.equal(back["sparse"].to_dense(), torch.eye(3))
    for key in ("strided", "zero", "half", "scalar"):
        assert torch.equal(back[key], value[key]) and back[key].dtype == value[key].dtype


def test_a_buffer_is_sent_once_and_reused(worker):
    for number in range(4):
        message = worker.pack([torch.full((3,), number), "text"])
        assert (message.buffer is not None) == (number == 0)
        got, text = sent(message).unpack()
        assert got.tolist() == [number] * 3
        assert text == "text"


def test_a_received_batch_is_not_overwritten(worker):
    first = sent(worker.pack(torch.zeros(5))).unpack()
    sent(worker.pack(torch.ones(5))).unpack()
    assert first.tolist() == [0] * 5


def test_new_memory_is_used_if_no_buffer_is_free(worker):
    held = [worker.pack(torch.full((2,), number)) for number in range(3)]
    assert [type(message) for message in held] == [SharedBatch, SharedBatch, Packed]
    assert [m.key for m in held[:2]] == [(-1, 0, 0), (-1, 0, 1)]
    assert sent(held[1]).unpack().tolist() == [1, 1]
    assert worker.pack(torch.zeros(2)).key == (-1, 0, 1)
    assert sent(held[0]).unpack().tolist() == [0, 0]


def test_a_larger_batch_replaces_a_buffer(worker):
    sent(worker.pack(torch.zeros(2))).unpack()
    large = torch.arange(100_000)
    message = worker.pack(large)
    assert message.buffer is not None
    assert torch.equal(sent(message).unpack(), large)
    assert worker.pack(large).buffer is None


def test_a_dropped_batch_frees_its_buffer(worker):
    messages = [worker.pack(torch.zeros(2)) for _ in range(2)]
    arrived = [sent(message) for message in messages]
    assert isinstance(worker.pack(torch.zeros(2)), Packed)
    del arrived
    assert isinstance(worker.pack(torch.zeros(2)), SharedBatch)


def test_dropping_a_message_in_the_worker_does_not_free_its_buffer(worker):
    message = worker.pack(torch.zeros(2))
    buffer = message.buffer
    del message
    assert buffer[0] == 1


def test_a_batch_can_be_taken_once(worker):
    message = sent(worker.pack(torch.zeros(2)))
    message.unpack()
    with pytest.raises(AssertionError, match="once"):
        message.take()
