"""Coarsen one graph that is larger than memory.

The rows of the graph and of its levels are files in a scratch folder. They are memory-mapped and read front to back. Memory holds
arrays with an entry per node and one bucket of entries. See :mod:`tgp.engine.external.levels`.
"""
