"""Figures of damaged stores: all flipped bits and truncated files are found, and no reader returns wrong data.

A child process damages a store many times, verifies and reads it each time, and prints one line per case. If the reading
code crashes or hangs, a line is missing.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from bisect import bisect_right
from collections import Counter
from pathlib import Path

import numpy as np

from tests.reliability.harness import ENVIRONMENT, Figure, scratch

BATCH = 250
SECONDS_PER_CASE = 1.0
"""Average time per case after which a child is considered to hang. It is generous, for busy machines."""


def flips(count: int, first: int = 0) -> list[Figure]:
    """Flip one bit at a time, half of them in each profile. The cases depend on the number of the first one."""
    return _damage("flip", "flipped bits", count, first)


def truncations(count: int, first: int = 0) -> list[Figure]:
    """Truncate one file at a time, half of them in each profile."""
    return _damage("cut", "truncations", count, first)


def _damage(kind: str, name: str, count: int, first: int) -> list[Figure]:
    found = Figure(f"{name}: found by verify")
    read = Figure(f"{name}: reading")
    outcomes = read.tally
    for profile in ("fast", "small"):
        share = count // 2
        for start in range(0, share, BATCH):
            size = min(BATCH, share - start)
            cases, problem = _batch(kind, profile, first // 2 + start, size)
            found.expect(not problem, problem)
            found.count += len(cases)
            for case in cases:
                _judge(case, found, read, outcomes)
    read.count = sum(outcomes.values())
    found.note = "shards, records and manifest, both profiles"
    return [found, read]


def _judge(case: dict[str, str], found: Figure, read: Figure, outcomes: Counter[str]) -> None:
    what = f"{case['kind']} of {case['file']} at {case['at']} ({case['region']}, {case['profile']})"
    found.expect(case["verify"] == "found", f"{what}: verify says {case['verify']}")
    read.expect(case["full"] in ("refused", "right"), f"{what}: with check='full' reading is {case['full']}")
    outcome = case["read"]
    if outcome == "wrong" and case["region"] == "values" and case["profile"] == "fast":
        # Arrays of the fast profile are memory-mapped. Their digest is checked only by verify and check="full".
        outcome = "other numbers in an array of values (fast profile)"
    else:
        read.expect(outcome in ("refused", "right"), f"{what}: reading is {outcome}")
    outcomes[outcome] += 1


def _batch(kind: str, profile: str, seed: int, size: int) -> tuple[list[dict[str, str]], str]:
    """Run a child, and return its cases and an error message if it failed."""
    command = [sys.executable, "-m", "tests.reliability.damage", kind, profile, str(seed), str(size)]
    limit = 60 + SECONDS_PER_CASE * size
    environment = {**os.environ, **ENVIRONMENT}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=limit, env=environment, check=False
        )
    except subprocess.TimeoutExpired as error:
        return [], f"{kind} {profile} from {seed}: hangs after {(error.stdout or b'')[-300:]!r}"
    cases = [json.loads(line) for line in done.stdout.splitlines()]
    if done.returncode != 0 or len(cases) != size:
        last = f"{len(cases)} of {size} cases: {done.stderr[-600:]}"
        return cases, f"{kind} {profile} from {seed}: ended with {done.returncode} after {last}"
    return cases, ""


# Child process ------------------------------------------------------------------------------------


def _damage_store(kind: str, profile: str, seed: int, size: int) -> None:
    from tgp.testing.stores import build_store, random_table

    with scratch() as folder:
        path = Path(folder) / "s"
        build_store(path, random_table(40, seed=3), num_units=1, profile=profile)
        regions = {file: _regions(file) for file in sorted(path.glob("*.h5"))}
        # Shards and the manifest are chosen twice as often as a record, which no reader needs.
        files = [*regions, path / "manifest.json"] * 2 + sorted(path.glob("records/*.json"))
        expected = _content(path, "full")
        rng = np.random.default_rng([seed, kind == "cut", profile == "small"])
        for _ in range(size):
            file = files[rng.integers(len(files))]
            original = file.read_bytes()
            at = int(rng.integers(len(original)))
            data = bytearray(original)
            if kind == "flip":
                data[at] ^= 1 << int(rng.integers(8))
            else:
                del data[at:]
            file.write_bytes(data)
            case = {"kind": kind, "profile": profile, "file": file.name, "at": at}
            case["region"] = _region(regions[file], at) if file in regions else "json"
            case["verify"] = _verify(path)
            case["read"] = _read(path, "cheap", expected)
            case["full"] = _read(path, "full", expected) if file in regions else case["read"]
            print(json.dumps(case), flush=True)
            file.write_bytes(original)


def _regions(file: Path) -> list[tuple[int, int, str]]:
    """Return the first byte, the end and the kind (offsets or values) of each array of a shard."""
    import h5py

    found = []

    def visit(name: str, item: object) -> None:
        if not isinstance(item, h5py.Dataset):
            return
        kind = "offsets" if name.rsplit("/", 1)[-1].endswith("ptr") or "/ptr/" in f"/{name}" else "values"
        start = item.id.get_offset()
        if start is not None:
            found.append((start, start + item.id.get_storage_size(), kind))
        elif item.chunks:
            chunks = [item.id.get_chunk_info(i) for i in range(item.id.get_num_chunks())]
            found.extend((c.byte_offset, c.byte_offset + c.size, kind) for c in chunks)

    with h5py.File(file) as opened:
        opened.visititems(visit)
    return sorted(found)


def _region(regions: list[tuple[int, int, str]], at: int) -> str:
    position = bisect_right(regions, (at, sys.maxsize, "")) - 1
    if position >= 0 and at < regions[position][1]:
        return regions[position][2]
    return "header"


def _verify(path: Path) -> str:
    from tgp.errors import StoreError
    from tgp.store import verify_store

    try:
        return "found" if verify_store(path, semantics=False) else "sound"
    except StoreError:
        return "found"


def _read(path: Path, check: str, expected: dict[str, bytes]) -> str:
    from tgp.errors import StoreError

    try:
        return "right" if _content(path, check) == expected else "wrong"
    except StoreError:
        return "refused"
    except Exception as error:  # noqa: BLE001 - any other error is a bug
        return f"{type(error).__name__}: {error}"


def _content(path: Path, check: str) -> dict[str, bytes]:
    """Return the bytes of everything that a reader returns, by name."""
    from tgp.store import StoreReader

    reader = StoreReader(path, check=check)
    ids = np.arange(reader.num_graphs)
    table = reader.gather_graphs(ids)
    content = {name: entry.values.tobytes() + entry.ptr.tobytes() for name, entry in table.fields.items()}
    for name, info in reader.hierarchies.items():
        for number in range(info.depth):
            level = reader.gather_level(ids, name, number)
            ptrs = {"node_ptr": level.node_ptr, "super_ptr": level.super_ptr, "edge_ptr": level.edge_ptr}
            for key, value in (level.arrays() | ptrs).items():
                content[f"{name}/{number}/{key}"] = value.tobytes()
            content[f"{name}/{number}/kind"] = level.assignment.kind.encode()
    return content


if __name__ == "__main__":
    _damage_store(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
