"""Compiled kernels on plain arrays. Private: called from ``ragged`` and ``coarsen`` only."""
