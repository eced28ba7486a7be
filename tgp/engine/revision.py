"""Revision of the engine: two engines of the same revision write the same bytes."""

from __future__ import annotations

__all__ = ["ENGINE_REVISION"]

ENGINE_REVISION = 3
"""Number that changes only when the bytes of a hierarchy can change.

A store depends on data, schedule, seed, format version and this number. Increase it by one in a release that changes the
result of a method, and set ``LevelMethod.revision`` of each method that changes to it. A hierarchy records the largest
revision of its methods (``Schedule.revision``), so stores of the other methods can be continued. All workers of a run have
the same engine revision. Do not increase it for a faster kernel that returns the same arrays. ``tests/build/test_engine_revision.py`` compares the files of small reference stores with the
digests that were recorded for the current revision, and fails if a change of bytes has no new revision. Versions of the HDF5
library write the same arrays and attributes in files that differ; that is not a new revision.
"""
