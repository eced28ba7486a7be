"""The graph-classification benchmark with known hardness."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch_geometric.data import Data

from tgp.datasets._base import GraphDataset, Transform
from tgp.errors import InputError

__all__ = ["GraphClassificationBench"]

_SPLITS = {"train": "tr", "val": "val", "test": "te"}


class _SplitError(InputError, AssertionError):
    """Also an ``AssertionError``, which users of this check may catch."""


class GraphClassificationBench(GraphDataset):
    """A benchmark in which neither features nor structure alone tell the class.

    Args:
        root: folder; the raw file is ``<root>/raw/<easy|hard>[_small].npz``.
        split: ``train``, ``val`` or ``test``.
        easy: the easy version (true) or the hard one.
        small: the small version.
        transform, pre_transform, pre_filter, force_reload: see PyG's ``InMemoryDataset``.
    """

    url = "https://github.com/FilippoMB/Benchmark_dataset_for_graph_classification/raw/master/datasets"

    def __init__(
        self,
        root: str | None = None,
        split: str = "train",
        easy: bool = True,
        small: bool = True,
        transform: Transform = None,
        pre_transform: Transform = None,
        pre_filter: Transform = None,
        force_reload: bool = False,
    ) -> None:
        if split not in _SPLITS:
            raise _SplitError(f"split must be one of {', '.join(_SPLITS)}, got {split!r}", field="split")
        self.split, self.easy, self.small = split, easy, small
        super().__init__(root, transform, pre_transform, pre_filter, force_reload)

    @property
    def file_name(self) -> str:
        """Stem of the raw file."""
        return ("easy" if self.easy else "hard") + ("_small" if self.small else "")

    @property
    def raw_file_names(self) -> list[str]:
        return [f"{self.file_name}.npz"]

    @property
    def processed_file_names(self) -> list[str]:
        return [f"{self.file_name}_{self.split}.pt"]

    def graphs(self) -> Sequence[Data]:
        from tgp.datasets._safe_objects import object_arrays

        arrays = object_arrays(self.raw_paths[0])
        key = _SPLITS[self.split]
        rows = zip(arrays[f"{key}_adj"], arrays[f"{key}_feat"], arrays[f"{key}_class"], strict=True)
        return [
            Data(
                x=torch.as_tensor(np.asarray(features), dtype=torch.float),
                edge_index=torch.from_numpy(np.stack(adjacency.nonzero())).long(),
                y=torch.tensor([int(np.argmax(label))]),
            )
            for adjacency, features, label in rows
        ]
