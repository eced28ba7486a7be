"""Results of the leaderboard, by dataset, method, ratio and network."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from typing import Any

from _protocol import settings_of

ORDER = ("Cora", "CiteSeer", "DBLP", "Photo", "Computers", "CS", "Physics")
NEAR = 1.1
"""A graph is a candidate for the best of a ratio if it has at most this multiple of the nodes."""

Result = Mapping[str, Any]


class Results:
    """Finished cells of the current protocol. The newest revision of a method counts, then the number of runs."""

    def __init__(self, cells: Mapping[str, Result]) -> None:
        self.runs: dict[tuple[str, str, float, str], Result] = {}
        self.facts: dict[tuple[str, str, float], Result] = {}
        for result in sorted(cells.values(), key=_age):
            settings, dataset = result["settings"], result["cell"].split("/")[0]
            key = (dataset, settings["method"], settings["ratio"])
            if "coarsen_seconds" in result:  # old cells of networks contain facts, too
                self.facts[key] = result
            if "facts" not in settings and settings_of(dataset).items() <= settings.items():
                self.runs[(*key, settings["model"])] = result

    @property
    def datasets(self) -> list[str]:
        """Names of the datasets, known ones first."""
        found = {key[0] for key in self.runs}
        return [name for name in ORDER if name in found] + sorted(found - set(ORDER))

    def of(self, dataset: str) -> dict[tuple[str, float, str], Result]:
        """Return the results of a dataset by method, ratio and network."""
        return {key[1:]: result for key, result in self.runs.items() if key[0] == dataset}

    def ratios(self, dataset: str) -> list[float]:
        """Return the ratios of a dataset, largest first."""
        return sorted({ratio for method, ratio, _ in self.of(dataset) if method != "full"}, reverse=True)

    def methods(self, dataset: str) -> list[str]:
        """Return the methods of a dataset in the order of their names."""
        return sorted({key[0] for key in self.of(dataset)} - {"full"})

    def counts(self, dataset: str, model: str) -> list[int]:
        """Return the different numbers of runs, ascending."""
        return sorted({len(result["test"]) for key, result in self.of(dataset).items() if key[2] == model})

    def full(self, dataset: str, model: str) -> Result | None:
        """Return the result of the full graph."""
        return self.runs.get((dataset, "full", 1.0, model))

    def at(self, dataset: str, ratio: float, model: str) -> dict[str, Result]:
        """Return the results of the methods whose size is near to the ratio."""
        return {
            method: result
            for (method, c, net), result in self.of(dataset).items()
            if (c, net) == (ratio, model) and method != "full" and result["kept"] <= NEAR * ratio
        }

    def best(self, dataset: str, ratio: float, model: str) -> tuple[str, Result] | None:
        """Return the method of highest validation accuracy whose size is near to the ratio. Test accuracies are not used.

        If numbers of runs differ, only the runs that all methods have are compared, because other runs have other splits.
        """
        found = self.at(dataset, ratio, model)
        if not found:
            return None
        common = min(len(result["val"]) for result in found.values())
        return max(found.items(), key=lambda item: (statistics.fmean(item[1]["val"][:common]), item[0]))


def _age(result: Result) -> tuple[int, bool, int]:
    return result["settings"]["revision"], "facts" in result["settings"], len(result.get("test", ()))


def mean(result: Result) -> float:
    """Return the mean test accuracy as it is shown."""
    return round(statistics.fmean(result["test"]), 1)


def spread(values: Iterable[float]) -> str:
    """Return mean and standard deviation, or the value itself if there is only one."""
    values = list(values)
    if len(values) == 1:
        return f"{values[0]:.1f}"
    return f"{statistics.fmean(values):.1f} ± {statistics.pstdev(values):.1f}"
