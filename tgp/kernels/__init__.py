"""Compiled kernels on plain arrays. Private: called from ``ragged``, ``coarsen`` and ``store`` only."""
