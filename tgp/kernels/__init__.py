"""Compiled kernels on plain arrays. Private: only ``ragged``, ``engine`` and ``store`` call them. All modules use ``array_types``."""
