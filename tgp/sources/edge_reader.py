"""Reader of the edges of one graph, piece by piece. Each kind of file has a subclass of :class:`EdgeReader`."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tgp.errors import DatasetError, TgpError
from tgp.input_limits import READ_ERRORS, describe
from tgp.kernels.array_types import Array, FloatArray, LongArray

__all__ = ["EdgePiece", "EdgeReader", "check_weights", "translate_errors"]


@dataclass(frozen=True)
class EdgePiece:
    """Consecutive edges of a file.

    Args:
        edges: ``[E, 2]`` ids.
        weight: ``[E]`` weights, or ``None``.
        position: Position in the file after these edges, an argument of :meth:`EdgeReader.read`.
    """

    edges: LongArray
    weight: FloatArray | None
    position: int


class EdgeReader:
    """Reader of the edges of one graph.

    Args:
        path: File or folder.

    Attributes:
        num_nodes: Number of nodes; ``None`` if it follows from the ids.
        has_holes: True if ids that have no edge are not nodes, so that nodes are numbered again.
        needs_copy: True if reading from an edge number on is not possible, so that the edges are copied to a binary file by the first
            pass. A position is then not a number of edges.
        keeps_symmetric: True if a file that lists every edge in both directions is taken as it is. Otherwise both directions are added to
            each edge of any file.
        weight_dtype: Type of the weights in the store; ``None`` if there are none, or if this is not known yet.
    """

    num_nodes: int | None = None
    has_holes = False
    needs_copy = False
    keeps_symmetric = True
    weight_dtype: np.dtype[Any] | None = None

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def files(self) -> list[Path]:
        """Files whose sizes and times identify the data."""
        return [self.path]

    def read(self, size: int, position: int = 0) -> Iterator[EdgePiece]:
        """Yield the edges in pieces of about ``size``, from a position on. Pieces have exactly this size if positions are edge numbers.

        Args:
            size: Number of edges.
            position: Position to start at, from an earlier piece.

        Raises:
            DatasetError: If the file is damaged, or an id or a weight is not valid.
        """
        pieces = self._read(size, position)
        while True:
            with translate_errors(self.path):
                piece = next(pieces, None)
            if piece is None:
                return
            yield piece

    def _read(self, size: int, position: int) -> Iterator[EdgePiece]:
        raise NotImplementedError

    def check_complete(self, num_edges: int) -> None:
        """Check that a file is not truncated, after all of its edges were read.

        Args:
            num_edges: Number of edges that were read.

        Raises:
            DatasetError: If the file declares more edges.
        """

    def estimate_edges(self) -> tuple[int, int]:
        """Return the estimated number of edges and of nodes, from the header or the first lines."""
        raise NotImplementedError

    def count_nodes(self) -> int | None:
        """Return the number of nodes, or ``None`` if it cannot be found without parsing the whole file."""
        return self.num_nodes


@contextlib.contextmanager
def translate_errors(path: Path) -> Iterator[None]:
    """Convert errors of parsers to :class:`~tgp.errors.DatasetError`.

    Args:
        path: File for the message.
    """
    try:
        yield
    except READ_ERRORS as error:
        if isinstance(error, TgpError):
            raise
        if isinstance(error, OSError) and error.errno is not None:  # the file itself may be sound
            raise DatasetError(f"{path} cannot be read: {os.strerror(error.errno)}") from error
        hint = "the file may be truncated: compare its size with the original, or get it again"
        raise DatasetError(f"{path} cannot be read: {describe(error)}", hint=hint) from error


def check_weights(weights: Array, where: str, dtype: npt.DTypeLike) -> FloatArray:
    """Return weights rounded to their type, as float64.

    Args:
        weights: Weights of a file.
        where: Place in the file, for the message.
        dtype: Type of the weights in the store.

    Raises:
        DatasetError: If a weight is negative or not finite.
    """
    with np.errstate(over="ignore"):
        rounded = weights.astype(dtype).astype(np.float64)
    wrong = ~(np.isfinite(rounded) & (rounded >= 0.0))
    if wrong.any():
        raise DatasetError(
            f"{where}: a weight cannot be used: expected finite numbers >= 0, got {weights[np.argmax(wrong)]}"
        )
    return np.abs(rounded)  # -0.0 becomes 0.0
