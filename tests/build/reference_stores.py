"""Small stores whose files are known byte for byte, for every method of the table.

The recorded file has one section per engine revision, with the files whose bytes changed in that revision. Stores of other
methods keep the digests of earlier revisions.

``python -m tests.build.reference_stores`` prints the digests of the current code. ``--write`` records them for the current
``ENGINE_REVISION``; digests that are already recorded for this revision are never changed. ``--only graclus,kmis`` limits
the hierarchies.
"""

import argparse
import hashlib
import json
import sys
import tempfile
from pathlib import Path

import h5py
import numpy as np

from tgp.build import CoarsenConfig, coarsen_dataset
from tgp.engine.methods import METHODS

RECORDED = Path(__file__).resolve().parents[1] / "reference" / "store_digests.json"

VARIANTS = {
    "graclus-degree": "graclus:order=degree:connect_red_op=mean*2",
    "kmis-two-hops": "kmis:order_k=2:scorer=random:score_heuristic=w-greedy:degree_norm=true*2",
    "ndp-eigen": "ndp,eigen:k=4",
    "sep-max": "sep:connect_red_op=max:edge_weight_norm=true*2",
}
"""Schedules besides three levels of every method."""

CONTENT = "content"
LIBRARY = f"hdf5 {h5py.version.hdf5_version}"
"""Key of the digests of files. Versions of the HDF5 library write the same content in files that differ."""

ADVICE = """\
The bytes of a store have changed, but ENGINE_REVISION is still {revision}: {names}.
If the change is not intended, find it: a store must depend only on data, schedule, seed, format version and revision.
If it is intended:
1. Increase ENGINE_REVISION in tgp/engine/revision.py by one.
2. Record the new digests: python -m tests.build.reference_stores --write
3. State in a change fragment that stores have to be built again."""


ATTRIBUTED = "attributed"
"""Dataset whose graphs have features and positions. Methods that need them have a reference store of this dataset only."""


def schedules(dataset=None):
    """Return the schedule of every hierarchy of a dataset, by its name; those of all datasets if it is ``None``."""
    own = [name for name in METHODS if METHODS.entry(name).target.startswith("tgp.engine.methods.")]
    needing = {name: f"{name}*3" for name in own if METHODS[name].needs}
    others = {**{name: f"{name}*3" for name in own if name not in needing}, **VARIANTS}
    if dataset == ATTRIBUTED:
        return needing
    return others if dataset is not None else {**others, **needing}


def join_graphs(graphs, *, weighted):
    """Return the arrays of an ``.npz`` dataset from pairs of a number of nodes and a list of edges."""
    edges = [np.asarray(pairs, np.int64).reshape(-1, 2) for _, pairs in graphs]
    arrays = {
        "node_ptr": np.cumsum([0] + [nodes for nodes, _ in graphs]),
        "edge_ptr": np.cumsum([0] + [len(pairs) for pairs in edges]),
        "edge_index": np.concatenate(edges).T.copy(),
    }
    if weighted:
        low, high = np.sort(arrays["edge_index"], axis=0)
        arrays["edge_weight"] = ((low * 7 + high * 3) % 11 + 1).astype(np.float64) / 8
    return arrays


def both_ways(pairs):
    return [*pairs, *((b, a) for a, b in pairs if a != b)]


def tree(nodes):
    return [(i, (i * i + 3) % i) for i in range(1, nodes)]


def ring(nodes, first=0):
    return [(first + i, first + (i + 1) % nodes) for i in range(nodes)]


def special_datasets():
    """Return tiny, disconnected and weighted graphs as arrays of ``.npz`` files."""
    tiny = [
        (1, []),
        (2, both_ways([(0, 1)])),
        (5, []),
        (3, both_ways([(0, 0), (0, 1), (2, 2)])),
        (3, both_ways([(0, 1), (1, 2), (2, 0)])),
        (7, both_ways([(0, i) for i in range(1, 7)])),
        (12, both_ways(ring(5) + ring(4, 5) + [(9, 10)])),
        (6, both_ways([(i, j) for i in range(6) for j in range(i)])),
    ]
    long_tree = sorted(
        {(min(p), max(p)) for p in tree(60) + [(i, (i * 5) % 60) for i in range(60)] if p[0] != p[1]}
    )
    weighted = [
        (60, both_ways(long_tree)),
        (20, both_ways(ring(20))),
        (24, both_ways(ring(10) + ring(14, 10))),
        (1, []),
    ]
    attributed = join_graphs(weighted, weighted=True)
    node = np.arange(attributed["node_ptr"][-1])
    attributed["x"] = ((node[:, None] * [7, 11, 13]) % 17 - 6).astype(np.float32) / 8
    attributed["pos"] = ((node[:, None] * [5, 3]) % 23).astype(np.float64) / 64
    return {
        "tiny": join_graphs(tiny, weighted=False),
        "weighted": join_graphs(weighted, weighted=True),
        ATTRIBUTED: attributed,
    }


def content_digest(path):
    """Return the SHA-256 of all names, types, shapes, values and attributes of an HDF5 file, whatever their layout."""
    digest = hashlib.sha256()

    def add(name, item):
        attributes = [
            (key, np.asarray(value).dtype.str, np.asarray(value).tolist())
            for key, value in item.attrs.items()
        ]
        digest.update(repr((name, sorted(attributes))).encode())
        if isinstance(item, h5py.Dataset):
            digest.update(repr((item.dtype.str, item.shape)).encode() + item[()].tobytes())

    with h5py.File(path) as file:
        add("", file)
        file.visititems(add)
    return digest.hexdigest()


def build_digests(folder, only=None):
    """Build the reference stores below a folder and return the digests of every shard file.

    Args:
        folder: Empty directory.
        only: Names of the hierarchies; all by default.

    Returns:
        For ``dataset/part``, the SHA-256 of the file under ``hdf5 <version of the library>``, and that of its content.
    """
    datasets = {
        "molecules": "molecules:num_graphs=12:seed=5",
        "grid": "grid:num_graphs=2:num_nodes=72",
        "ba": "ba:num_graphs=2:num_nodes=90",
    }
    for name, arrays in special_datasets().items():
        np.savez(folder / f"{name}.npz", **arrays)
        datasets[name] = str(folder / f"{name}.npz")
    found = {}
    for dataset, source in datasets.items():
        chosen = {name: text for name, text in schedules(dataset).items() if only is None or name in only}
        chosen = {
            name: text for name, text in chosen.items() if name not in METHODS or METHODS[name].is_installed
        }
        if not chosen:
            continue
        out = folder / dataset
        config = CoarsenConfig(
            dataset=source, poolers=tuple(chosen.values()), names=tuple(chosen), out=out, seed=7, workers=1
        )
        coarsen_dataset(config)
        for file in sorted(out.glob("*.h5")):
            part = file.name.removeprefix("shard-00000.").removesuffix(".h5")
            found[f"{dataset}/{part}"] = {
                CONTENT: content_digest(file),
                LIBRARY: hashlib.sha256(file.read_bytes()).hexdigest(),
            }
    return dict(sorted(found.items()))


def read_recorded(path=RECORDED):
    """Return the recorded digests of every revision."""
    return json.loads(path.read_text()) if path.exists() else {}


def known_digests(recorded, revision):
    """Return the digests of every file as of a revision: those of the last revision that changed the file."""
    known = {}
    for number in sorted(map(int, recorded)):
        if number <= revision:
            known.update(recorded[str(number)])
    return known


def find_changed(found, known):
    """Return the names of files whose content or bytes differ from the recorded ones."""
    return [
        name
        for name, digests in found.items()
        if any(known.get(name, {}).get(kind, digest) != digest for kind, digest in digests.items())
    ]


def compare(found, recorded, revision):
    """Return a message that names the files that differ from the recorded ones, or ``None``."""
    known = known_digests(recorded, revision)
    advice = "Record them: python -m tests.build.reference_stores --write"
    changed = find_changed(found, known)
    if changed:
        return ADVICE.format(revision=revision, names=", ".join(changed))
    missing = [name for name in found if CONTENT not in known.get(name, {})]
    return f"no digests are recorded for {', '.join(missing)}. {advice}" if missing else None


def record(found, revision, path=RECORDED):
    """Add digests to the file. Digests that are recorded for this revision are not replaced.

    Files that have the bytes of an earlier revision are not repeated.

    Raises:
        SystemExit: If a recorded digest differs.
    """
    recorded = read_recorded(path)
    known = recorded.setdefault(str(revision), {})
    changed = find_changed(found, known)
    if changed:
        raise SystemExit(ADVICE.format(revision=revision, names=", ".join(changed)))
    earlier = known_digests(recorded, revision - 1)
    for name, digests in found.items():
        is_new = name in known or name not in earlier or find_changed({name: digests}, earlier)
        (known if is_new else earlier).setdefault(name, {}).update(digests)
    path.write_text(json.dumps(recorded, indent=1, sort_keys=True) + "\n")


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m tests.build.reference_stores")
    parser.add_argument("--write", action="store_true", help="record the digests of the current revision")
    parser.add_argument("--only", help="names of hierarchies, separated by commas")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        found = build_digests(Path(folder), options.only and options.only.split(","))
    if options.write:
        from tgp.engine.revision import ENGINE_REVISION

        record(found, ENGINE_REVISION)
    json.dump(found, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
