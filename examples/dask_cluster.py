"""Coarsen a dataset on a Dask cluster, then in this process, and compare the bytes of the two stores.

python examples/dask_cluster.py
python examples/dask_cluster.py --dataset NCI1 --root DIR --pooler 'ndp*2' --scheduler tcp://host:8786 --out pooled

Without --scheduler, a cluster of worker processes is started on this machine. Workers of a real cluster need access to the
folder of --out under the same path. This example needs the package distributed: pip install 'tgp-coarsen[dask]'
"""

import argparse
import contextlib
import hashlib
import logging
import sys
import tempfile
import time
from pathlib import Path

from tgp.build import CoarsenConfig, coarsen_dataset
from tgp.errors import TgpError


def digest(store: Path) -> str:
    """Return one digest of the names and bytes of all files of a store."""
    total = hashlib.sha256()
    for path in sorted(path for path in store.rglob("*") if path.is_file() and path.name != ".lock"):
        total.update(str(path.relative_to(store)).encode() + path.read_bytes())
    return total.hexdigest()


@contextlib.contextmanager
def scheduler(address: str | None, workers: int, folder: Path):
    """Yield the given address, or start a local cluster for the time of the block and yield its address."""
    if address is not None:
        yield address
        return
    from distributed import LocalCluster

    cluster = LocalCluster(
        n_workers=workers,
        threads_per_worker=1,  # only one unit at a time is coarsened in a process
        dashboard_address=None,
        silence_logs=logging.ERROR,
        local_directory=str(folder),
    )
    with cluster:
        cluster.wait_for_workers(workers, timeout=120)
        yield cluster.scheduler_address


def main(argv: list[str] | None = None) -> bool | None:
    """Print seconds and digests. Return True if the stores are equal, and ``None`` if Dask is not installed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--dataset", default="molecules:num_graphs=2000", help="a built-in set, a name, or a path"
    )
    parser.add_argument("--root", type=Path, help="folder of the raw files of a known dataset")
    parser.add_argument("--pooler", default="sep*3", help="schedule of the levels")
    parser.add_argument("--scheduler", help="address or scheduler file of a running cluster")
    parser.add_argument("--workers", type=int, default=2, help="number of workers of a local cluster")
    parser.add_argument("--out", type=Path, help="folder of both stores; default a temporary folder")
    options = parser.parse_args(argv)
    try:
        import distributed  # noqa: F401 - only to check
    except ImportError:
        print("skipped: this example needs the package distributed, pip install 'tgp-coarsen[dask]'")
        return None
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        out = options.out or Path(folder)
        # Small shards give several units. The shard size is part of the store, so both runs use the same.
        same = {
            "dataset": options.dataset,
            "root": options.root,
            "poolers": (options.pooler,),
            "shard_size": 500_000,
        }
        digests = {}
        print(f"{'where':8} {'seconds':>8} {'units':>6}  digest")
        for where in ("cluster", "local"):
            with contextlib.ExitStack() as stack:
                address = None
                if where == "cluster":
                    place = scheduler(options.scheduler, options.workers, Path(folder) / "dask")
                    address = stack.enter_context(place)
                config = CoarsenConfig(**same, out=out / where, scheduler=address)
                started = time.perf_counter()
                summary = coarsen_dataset(config)
                seconds = time.perf_counter() - started
            digests[where] = digest(config.path)
            print(
                f"{where:8} {seconds:8.1f} {summary.num_units:6}  {digests[where][:16]} {summary.status}",
                flush=True,
            )
    equal = digests["cluster"] == digests["local"]
    print("same bytes" if equal else "DIFFERENT bytes")
    return equal


if __name__ == "__main__":
    try:
        sys.exit(main() is False)
    except TgpError as error:
        raise SystemExit(f"Error: {error}" + (f"\nHint: {error.hint}" if error.hint else "")) from None
