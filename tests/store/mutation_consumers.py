"""All ways to read a store. Each consumer of a mutated store must raise a ``TgpError`` or return correct data."""

import contextlib
import csv
import functools
import io
import json
import os
import re
import shutil
import sys
import unicodedata
import zipfile
import zlib
from pathlib import Path

import numpy as np
import torch

from tests.store.mutation_oracle import NoData, Oracle
from tests.store.mutation_stores import COARSEN, MARKUP, coarsen_options
from tgp.errors import TgpError
from tgp.store import StoreReader, StoreWriter, read_spec, verify_store

torch.set_num_threads(1)


class Wrong(Exception):
    """Result that is not correct."""


# Comparison with the oracle ---------------------------------------------------------------------------


@functools.lru_cache(maxsize=4)
def _oracle(path):
    return Oracle(path)


def expect(oracle, call, got, where, *, flat=False):
    """Check a value against the oracle."""
    try:
        wanted = call()
    except NoData as error:
        raise Wrong(f"{where}: returned data although {error}") from None
    if not isinstance(wanted, np.ndarray):
        if type(got) is not type(wanted) or got != wanted:
            raise Wrong(f"{where}: other text")
        return
    got = got.numpy() if isinstance(got, torch.Tensor) else np.asarray(got)
    if flat:
        wanted = wanted.reshape(-1).astype(got.dtype)
        got = got.reshape(-1)
    if got.dtype != wanted.dtype or got.shape != wanted.shape:
        raise Wrong(f"{where}: {got.dtype}{got.shape} instead of {wanted.dtype}{wanted.shape}")
    if not np.array_equal(got, wanted, equal_nan=got.dtype.kind in "fc"):
        raise Wrong(f"{where}: other values")


def check_table(oracle, table, ids, names=None):
    """Check graphs with local node ids."""
    for place, graph in enumerate(ids):
        for name in names or oracle.fields:
            field = table.fields[name]
            got = field.item(place)
            if field.form in ("str", "json"):
                try:
                    got = got.tobytes().decode()
                    got = json.loads(got) if field.form == "json" else got
                except ValueError as error:
                    raise Wrong(f"{name}: returned text that is not valid") from error
            expect(oracle, lambda g=graph, n=name: oracle.field(g, n), got, f"graph {graph}, {name}")


def check_levels(oracle, levels, ids, hierarchy, *, local=False):
    """Check levels whose ids count through the batch, or stay local."""
    for number, level in enumerate(levels):
        for place, graph in enumerate(ids):
            try:
                wanted, count = oracle.level(graph, hierarchy, number)
            except NoData as error:
                raise Wrong(f"graph {graph}, level {number}: returned data although {error}") from None
            if level.super_ptr[place + 1] - level.super_ptr[place] != count:
                raise Wrong(f"graph {graph}, level {number}: other number of supernodes")
            got = level.arrays()
            if set(got) != set(wanted):
                raise Wrong(f"graph {graph}, level {number}: arrays {sorted(got)}")
            for name, values in wanted.items():
                ptr = {"edge_index": level.edge_ptr, "edge_weight": level.edge_ptr}.get(name, level.node_ptr)
                ptr = level.super_ptr if name == "representative" else ptr
                low, high = int(ptr[place]), int(ptr[place + 1])
                part = got[name][..., low:high] if name == "edge_index" else got[name][low:high]
                if name in ("edge_index", "cluster", "representative") and not local:
                    shift = level.node_ptr if name == "representative" else level.super_ptr
                    part = np.where(part < 0, -1, part - shift[place])
                where = f"graph {graph}, level {number}, {name}"
                expect(oracle, lambda v=values: v, part, where)
            if set(level.fields) != set(oracle.level_names(hierarchy, number)):
                raise Wrong(f"graph {graph}, level {number}: attributes {sorted(level.fields)}")
            for name, field in level.fields.items():
                part = field.item(place)
                part = json.loads(part.tobytes()) if field.form == "json" else part
                place_of = (graph, hierarchy, number, name)
                expect(oracle, lambda p=place_of: oracle.level_field(*p), part, f"graph {graph}, {name}")


def check_data(oracle, data, graph, hierarchy):
    """Check a graph of PyG with its levels."""
    for name, info in oracle.fields.items():
        if info["axis"] == -1 and "index" not in name:
            continue  # see _dataset
        if name in ("batch", "ptr"):
            continue  # PyG replaces them in batches
        got = data[name]
        if name == "pooled_data" and not isinstance(got, torch.Tensor):
            raise Wrong("the levels replace the field 'pooled_data'")
        if isinstance(got, list) and "encoding" not in info:
            got = got[0]
        expect(
            oracle,
            lambda n=name: oracle.field(graph, n),
            got,
            f"graph {graph}, {name}",
            flat=info["form"] != "str",
        )
    if data.num_nodes != oracle.num_nodes(graph):
        raise Wrong(f"graph {graph}: other number of nodes")
    for number, level in enumerate(data.get("pooled_data") or ()):
        try:
            wanted, count = oracle.level(graph, hierarchy, number)
        except NoData as error:
            raise Wrong(f"graph {graph}, level {number}: returned data although {error}") from None
        if level.num_nodes != count:
            raise Wrong(f"graph {graph}, level {number}: other number of supernodes")
        for name in ("edge_index", "edge_weight"):
            if name in wanted:
                expect(
                    oracle,
                    lambda w=wanted, n=name: w[n],
                    level[name],
                    f"graph {graph}, level {number}, {name}",
                )
        for name in oracle.level_names(hierarchy, number):
            place_of = (graph, hierarchy, number, name)
            expect(oracle, lambda p=place_of: oracle.level_field(*p), level[name], f"graph {graph}, {name}")


# Library ----------------------------------------------------------------------------------------------


def _names(reader):
    return list(reader.hierarchies)


def _ids(reader):
    """Return all graphs, some twice, in another order. A store that claims to have millions is not read whole."""
    count = min(reader.num_graphs, 64)
    return [*range(count - 1, -1, -1), *range(0, count, 2)]


def read_single(path, work):
    """Read every graph, level, metric and failure with a reader that checks all bytes."""
    reader = StoreReader(path, check="full")
    oracle = _oracle(path)
    for graph in range(min(reader.num_graphs, 64)):
        check_table(oracle, reader.read_graph(graph), [graph])
        for name in _names(reader):
            check_levels(oracle, reader.read_levels(graph, name), [graph], name, local=True)
    for name in _names(reader):
        for number in range(reader.hierarchy(name).depth):
            nodes, _ = reader.sizes(name, number + 1)
            if nodes.min(initial=0) < 0:
                raise Wrong("negative sizes")
            reader.cluster_sizes(name, number, range(min(reader.num_graphs, 64)))
            _same_metrics(oracle, reader, name, number)
        try:
            wanted = oracle.failures(name)
        except NoData as error:
            wanted = str(error)
        got = [(f.graph, f.level, f.reason) for f in reader.failures(name)]
        if got != wanted:
            raise Wrong(f"failures: {wanted}")


def _same_metrics(oracle, reader, name, number):
    got = reader.metrics(name, number)
    try:
        wanted = oracle.metrics(name, number)
    except (NoData, ValueError) as error:
        raise Wrong(f"metrics: returned although {error}") from None
    for key, values in wanted.items():
        expect(oracle, lambda v=values: v, got[key], f"metric {number}/{key}")


def _gather(path, **options):
    reader = StoreReader(path, **options)
    oracle, ids = _oracle(path), _ids(reader)
    check_table(oracle, reader.gather_graphs(ids), ids)
    for name in _names(reader):
        check_levels(oracle, reader.gather_levels(ids, name), ids, name)


def gather(path, work):
    """Gather batches with the compiled kernels."""
    _gather(path)


def gather_in_memory(path, work):
    """Gather batches from arrays in memory."""
    _gather(path, in_memory=True)


def _dataset(path, **options):
    from tgp.data import PooledDataset

    reader = StoreReader(path)
    hierarchies = _names(reader)
    # PyG splits a batch along axis 0, whatever the store says, unless the name of the field contains "index".
    names = [name for name, info in reader.fields.items() if info.axis == 0 or "index" in name]
    return PooledDataset(path, next(iter(hierarchies), None), fields=names, failed="skip", **options)


def _epoch(dataset, path):
    from tgp.data import PoolDataLoader

    oracle = _oracle(path)
    ids = iter(dataset._ids().tolist())
    for number, batch in enumerate(PoolDataLoader(dataset, batch_size=4)):
        for place in range(batch.num_graphs):
            check_data(oracle, batch.get_example(place), next(ids), dataset.hierarchy)
        if number > 20:
            break


def loader(path, work):
    """Read an epoch of batches with all levels."""
    _epoch(_dataset(path), path)


def loader_in_memory(path, work):
    """Read an epoch of batches from memory."""
    _epoch(_dataset(path, in_memory=True), path)


def items(path, work):
    """Read graphs one by one."""
    dataset, oracle = _dataset(path), _oracle(path)
    for place, graph in enumerate(dataset._ids()[:32].tolist()):
        check_data(oracle, dataset[place], graph, dataset.hierarchy)


def hierarchy(path, work):
    """Pool and lift features over all levels of a graph."""
    dataset = _dataset(path)
    if dataset.levels:
        found = dataset.as_hierarchy(0)
        features = torch.ones(found.data.num_nodes, 2)
        top = found.pool(features, len(found))
        found.lift(top, len(found))


def level_store(path, work):
    """Read the arrays of each level from mapped files, and sample neighbourhoods."""
    from tgp.data import LevelStore

    dataset, oracle = _dataset(path), _oracle(path)
    for place, graph in enumerate(dataset._ids()[:8].tolist()):
        for level in (0, *dataset.levels):
            store = LevelStore(dataset, level, place)
            where = f"graph {graph}, level {level}"
            edges = torch.stack(store.coo()[:2])
            wanted = functools.partial(_mapped, oracle, graph, dataset.hierarchy, level)
            expect(oracle, lambda w=wanted: w("edge_index"), edges, f"{where}, edge_index")
            names = dict.fromkeys(store._rows(store.graph.nodes), store.node_values)
            names |= dict.fromkeys(store._rows(store.graph.edges), store.edge_values)
            for name, read in names.items():
                expect(oracle, lambda w=wanted, n=name: w(n), read(name), f"{where}, {name}")
            for batch in store.neighbor_loader([2], batch_size=4) if store.num_nodes else ():
                if not torch.equal(batch.n_id[batch.edge_index], edges[:, batch.e_id]):
                    raise Wrong(f"{where}: other edges in a batch")


def _mapped(oracle, graph, hierarchy, level, name):
    """Return an array of the input graph or of a level."""
    if not level:
        return oracle.field(graph, name)
    arrays, _ = oracle.level(graph, hierarchy, level - 1, name)  # other arrays are not read
    return arrays[name] if name in arrays else oracle.level_field(graph, hierarchy, level - 1, name)


def budget(path, work):
    """Read attributes of all graphs, and batches with limits on their numbers of nodes and edges."""
    from tgp.data import PoolDataLoader

    dataset = _dataset(path)
    found = [dataset.num_node_features, dataset.num_edge_features, dataset.num_classes]
    found += [dataset.sizes(level) for level in (0, *dataset.levels)]
    levels = [0, *dataset.levels]
    sizes = {"max_nodes": 300, "max_edges": 2000, "budget_levels": levels, "batch_size": None}
    for number, _ in enumerate(PoolDataLoader(dataset, shuffle=True, seed=1, **sizes)):
        if number > 20:
            break


def verify(path, work):
    """Return the findings of a verification."""
    return [f.message for f in verify_store(path)]


def continue_writing(path, work):
    """Continue the store with its own specification, as a run that was interrupted does."""
    target = _copy(path, work)
    spec = read_spec(target)
    if spec is not None:
        writer = StoreWriter.open(target, spec)
        if not writer.pending():
            writer.publish()


def _copy(path, work):
    target = work / "copy"
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(path, target)
    return target


# Command line -------------------------------------------------------------------------------------------

_STYLES = re.compile(r"\x1b\[\??[0-9;]*[mKAhl]|\r")
"""Sequences that tgp itself writes to a terminal: colours, and the progress line."""


class _Terminal(io.TextIOWrapper):
    """Stream that claims to be a terminal."""

    def isatty(self):
        return True


def run_command(arguments, *, terminal=False):
    """Run a command in this process and check its status and output.

    Returns:
        Status and text of stdout.
    """
    from tgp_cli.main import run

    kind = _Terminal if terminal else io.TextIOWrapper
    streams = [kind(io.BytesIO(), "utf-8", "backslashreplace", write_through=True) for _ in range(2)]
    with contextlib.redirect_stdout(streams[0]), contextlib.redirect_stderr(streams[1]):
        status = run([str(a) for a in arguments])
    out, err = (s.buffer.getvalue().decode("utf-8", "replace") for s in streams)
    if status not in (0, 1, 2, 3, 4):
        raise Wrong(f"exit {status}: {err.strip()[-300:]}")
    if "Traceback" in err:
        raise Wrong(f"traceback: {err[-300:]}")
    for name, text in (("stdout", out), ("stderr", err)):
        check_inert(_STYLES.sub("", text) if terminal else text, name)
    return status, out


def check_inert(text, where):
    """Check that a text holds no control characters, bidi marks or forged lines."""
    for number, line in enumerate(text.split("\n")):
        bad = [c for c in line if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") and c != "\t"]
        if bad:
            raise Wrong(f"{where}, line {number}: raw control characters {sorted(set(bad))!r}")
        if line.startswith("FAKE"):
            raise Wrong(f"{where}, line {number}: a name begins a line")


def inspect(path, work):
    """Run ``tgp inspect``."""
    run_command(["inspect", path])


def inspect_terminal(path, work):
    """Run ``tgp inspect`` on a terminal."""
    run_command(["inspect", path], terminal=True)


def inspect_json(path, work):
    """Run ``tgp inspect --json``."""
    run_command(["inspect", path, "--json"])


def inspect_graph(path, work):
    """Run ``tgp inspect --graph``."""
    run_command(["inspect", path, "--graph", "0"])


def inspect_csv(path, work):
    """Run ``tgp inspect --csv`` and check that no cell is a formula."""
    _, out = run_command(["inspect", path, "--csv"])
    for row in csv.reader(io.StringIO(out)):
        for cell in row:
            if cell[:1] in ("=", "+", "-", "@"):
                try:
                    float(cell)
                except ValueError:
                    raise Wrong(f"CSV cell {cell[:20]!r} is a formula") from None


def inspect_spectral(path, work):
    """Run ``tgp inspect --spectral``."""
    run_command(["inspect", path, "--spectral", "--sample", "2", "--modes", "2"])


def verify_command(path, work):
    """Run ``tgp verify``."""
    run_command(["verify", path])


def verify_deep(path, work):
    """Run ``tgp verify --deep``."""
    run_command(["verify", path, "--deep", "--sample", "2"])


def inspect_diff(path, work):
    """Run ``tgp inspect --diff`` with the base store."""
    base = (work / "base").read_text()
    run_command(["inspect", "--diff", path, work.parents[2] / "bases" / base])


def verify_terminal(path, work):
    """Run ``tgp verify`` on a terminal."""
    run_command(["verify", path], terminal=True)


def report(path, work):
    """Run ``tgp report`` and check that no markup of the store is in the page."""
    status, _ = run_command(["report", path, "--out", work / "report.html"])
    if status == 0:
        _check_page((work / "report.html").read_text())


def _check_page(page):
    if MARKUP in page or "<img src=x" in page:
        raise Wrong("the page holds markup of the store")
    bad = {c for c in page if unicodedata.category(c) in ("Cc", "Cs") and c not in "\n\t"}
    if bad:
        raise Wrong(f"the page holds control characters {sorted(bad)!r}")


def view(path, work):
    """Read all kinds of pages of ``tgp view``. A page of an unexpected error is wrong."""
    from tgp.inspect.view import StoreApplication

    application = StoreApplication(path)
    pages = [
        ("", {}),
        ("graphs", {"sort": "-ratio"}),
        ("graphs.json", {"q": "ratio>0 nodes>0"}),
        ("graph.json", {"id": "1"}),
    ]
    for page, values in [*pages, *(("graph", {"id": str(graph)}) for graph in range(3))]:
        answer = application.respond(page, values)
        text = answer.body.decode()
        if answer.status not in (200, 404, 500) or "nexpected " in text:
            raise Wrong(f"page {page!r} has the status {answer.status}: {text.rpartition('<main>')[2][:500]}")
        if not page.endswith(".json"):
            _check_page(text)


def export_npz(path, work):
    """Run ``tgp export --to npz`` and check the names of the archive members."""
    target = work / "npz"
    shutil.rmtree(target, ignore_errors=True)
    before = set(work.parent.iterdir())
    status, _ = run_command(["export", path, "--to", "npz", "--out", target])
    if status == 0:
        for file in target.iterdir():
            with zipfile.ZipFile(file) as archive:
                for name in archive.namelist():
                    check_inert(name, "archive member")
                    if name.startswith("/") or ".." in Path(name).parts or "/" in name or "\\" in name:
                        raise Wrong(f"archive member {name!r}")
                archive.testzip()
            dict(np.load(file, allow_pickle=False))
    if set(work.parent.iterdir()) != before:
        raise Wrong("files outside of the folder")


def export_pyg(path, work):
    """Run ``tgp export --to pyg``."""
    shutil.rmtree(work / "pyg", ignore_errors=True)
    run_command(["export", path, "--to", "pyg", "--out", work / "pyg"])


def export_graphml(path, work):
    """Run ``tgp export --to graphml`` for one graph."""
    shutil.rmtree(work / "graphml", ignore_errors=True)
    run_command(["export", path, "--to", "graphml", "--graphs", "0:1", "--out", work / "graphml"])


def plot(path, work):
    """Run ``tgp plot``."""
    run_command(["plot", path, "--out", work / "plot.svg"])


def status(path, work):
    """Run ``tgp status``."""
    run_command(["status", path])


def merge(path, work):
    """Run ``tgp merge``."""
    run_command(["merge", _copy(path, work)])


def merge_again(path, work):
    """Run ``tgp merge`` on a store that lost its manifest."""
    target = _copy(path, work)
    (target / "manifest.json").unlink(missing_ok=True)
    run_command(["status", target])
    run_command(["merge", target])


def coarsen(path, work):
    """Run the ``tgp coarsen`` command that made the base store again."""
    base = (work / "base").read_text()
    run_command(coarsen_options(base if base in COARSEN else "cli", _copy(path, work)))


def coarsen_again(path, work):
    """Run the same command after the manifest is lost."""
    target = _copy(path, work)
    (target / "manifest.json").unlink(missing_ok=True)
    base = (work / "base").read_text()
    run_command(coarsen_options(base if base in COARSEN else "cli", target))


CONSUMERS = {
    function.__name__: function
    for function in (
        verify, read_single, gather, gather_in_memory, loader, loader_in_memory, items, budget, hierarchy, level_store, inspect,
        inspect_terminal, inspect_json, inspect_graph, inspect_csv, inspect_spectral, inspect_diff, verify_command,
        verify_deep, verify_terminal, report, view, export_npz, export_pyg, export_graphml, plot, status, merge, merge_again,
        continue_writing, coarsen, coarsen_again,
    )
}  # fmt: skip
CORE = ("verify", "read_single", "gather", "loader", "inspect_graph", "report", "status", "continue_writing")
"""Consumers of every mutation. Systematic mutations run some of the others in turn."""

READERS = ("read_single", "gather", "gather_in_memory", "loader", "loader_in_memory", "items")
"""Consumers that read everything that they return, and must agree with ``verify``."""


def consumers_of(mutation):
    """Return the names of the consumers that a mutation is run through."""
    if mutation.name.startswith("named/"):
        return list(CONSUMERS)
    others = [name for name in CONSUMERS if name not in CORE]
    first = zlib.crc32(mutation.name.encode())
    chosen = {others[(first + 7 * number) % len(others)] for number in range(3)}
    return [name for name in CONSUMERS if name in CORE or name in chosen]


def classify(error):
    """Return kind and text of the end of a cell."""
    if isinstance(error, Wrong):
        return "wrong", str(error)
    if isinstance(error, TgpError):
        try:
            check_inert(str(error).replace("\n  ", " "), "message of the error")
        except Wrong as wrong:
            return "wrong", f"{type(error).__name__}: {wrong}"
        return "refused", f"{type(error).__name__}: {error}"
    if isinstance(error, MemoryError):
        return "memory", f"{type(error).__name__}: {error}"
    return "bare", f"{type(error).__name__}: {error} at {_place(error)}"


def _place(error):
    """Return the innermost frame of the package."""
    found, trace = "?", error.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if f"{os.sep}tgp" in name or "mutation" in name:
            found = f"{Path(name).parent.name}/{Path(name).name}:{trace.tb_lineno}"
        trace = trace.tb_next
    return found


def run_consumer(name, path, work):
    """Run one consumer.

    Returns:
        Kind of the end (``ok``, ``refused``, or a finding), and a text.
    """
    try:
        found = CONSUMERS[name](path, work)
    except SystemExit as end:
        return "bare", f"SystemExit {end.code}"
    except BaseException as error:  # noqa: BLE001 - any error is a result
        return classify(error)
    finally:
        sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
    if name == "verify":
        return ("refused", found[0]) if found else ("ok", "")
    return "ok", ""
