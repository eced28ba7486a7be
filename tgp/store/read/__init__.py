"""Read graphs, levels and batches from a store."""
