"""Access to the files of a store: local, remote and memory-mapped, with checks of untrusted files."""
