"""For tests of poolers, ours and yours: toy graphs, hypothesis strategies, checks.

``tgp.testing.strategies`` needs hypothesis; nothing here imports it for you.
"""
