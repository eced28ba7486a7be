"""Benchmark of graph classification that needs features and structure."""

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
    """Error for an unknown split. It is an ``AssertionError``, too, because code for tgp 1.0.2 may catch that class."""


class GraphClassificationBench(GraphDataset):
    """Dataset in which neither the features nor the structure alone determine the class.

    Args:
        root: Folder of the dataset. The raw file is ``<root>/raw/<easy|hard>[_small].npz``.
        split: Part of the dataset: ``train``, ``val`` or ``test``.
        easy: Use the easy version; False for the hard version.
        small: Use the small version.
        transform, pre_transform, pre_filter, force_reload: Arguments of PyG's ``InMemoryDataset``.
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
