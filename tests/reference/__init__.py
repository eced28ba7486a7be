"""Slow, obvious implementations: what the kernels must equal."""
