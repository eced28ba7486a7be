"""Attributes on the levels of a store: bytes, resuming, errors, commands, and computing them when graphs are read."""

import hashlib
import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import h5py
import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.utils import coalesce

import tgp
from tgp.build import CoarsenConfig, coarsen_dataset, plan_run
from tgp.build.config import load_config
from tgp.data import PoolDataLoader, PooledDataset
from tgp.engine.carry import CarryRules, resolve
from tgp.engine.carry_fields import carry_fields
from tgp.errors import GraphError, InputError, ParameterError, StoreMismatchError, UnknownNameError
from tgp.inspect import inspect_store, verify_by_recompute
from tgp.inspect.export import export_store
from tgp.sources import open_source
from tgp.store import StoreReader, verify_store
from tgp.testing.stores import forge_shard
from tgp_cli.main import run as command

POOLERS = ("graclus*2,nmf:k=3", "kmis,ndp", "eigen:k=3")
"""Hard, soft and one-hot levels, with and without edges that are contractions."""

CARRY = "auto,half=sum,names=majority,pos=stats,score=max,flag=all,bond=first"


def make_graph(nodes, rng):
    """Return a ring with chords and attributes of many types."""
    ring = np.arange(nodes)
    others = rng.integers(0, max(nodes, 1), (2, nodes))
    ends = np.concatenate([[ring, (ring + 1) % max(nodes, 1)], others], axis=1)
    ends = ends[:, ends[0] != ends[1]]
    edges = coalesce(torch.from_numpy(np.concatenate([ends, ends[::-1]], axis=1)), num_nodes=nodes)
    count = edges.size(1)
    return Data(
        edge_index=edges,
        x=torch.from_numpy(rng.standard_normal((nodes, 3)).astype(np.float32)),
        pos=torch.from_numpy(rng.standard_normal((nodes, 2))),
        y=torch.from_numpy(rng.integers(0, 4, nodes)),
        train_mask=torch.from_numpy(rng.random(nodes) < 0.5),
        half=torch.from_numpy(rng.standard_normal(nodes).astype(np.float16)),
        score=torch.from_numpy(rng.integers(-90, 90, (nodes, 2)).astype(np.int16)),
        flag=torch.from_numpy(rng.random(nodes) < 0.9),
        edge_attr=torch.from_numpy(rng.standard_normal((count, 2)).astype(np.float32)),
        bond=torch.from_numpy(rng.integers(0, 3, count).astype(np.int32)),
        names=[f"kind {k}" for k in rng.integers(0, 3, nodes)],
        target=torch.tensor([1.5]),
        num_nodes=nodes,
    )


@pytest.fixture(scope="module")
def graphs():
    rng = np.random.default_rng(0)
    sizes = [1, *rng.integers(4, 20, 22), 0, 30]
    return [make_graph(int(n), rng) for n in sizes]


def config(graphs, out, **values):
    base = {"poolers": POOLERS, "names": ("a", "b", "c"), "carry": CARRY, "shard_size": 15_000}
    return CoarsenConfig(graphs, out=out, **(base | values))


def digest(folder):
    files = (p for p in sorted(folder.rglob("*")) if p.is_file() and p.name != ".lock")
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


@pytest.fixture(scope="module")
def built(graphs, tmp_path_factory):
    out = tmp_path_factory.mktemp("carry") / "s"
    assert coarsen_dataset(config(graphs, out)).num_units > 2
    return out


# Bytes ---------------------------------------------------------------------------------------------------


def test_levels_have_the_attributes_of_the_engine(graphs, built):
    table = open_source(graphs).table
    steps = resolve(CarryRules.parse(CARRY), table)
    reader = StoreReader(built)
    ids = np.arange(len(graphs))
    for name, text in zip("abc", POOLERS, strict=True):
        plain = tgp.engine.coarsen(table.to_block(), text)
        for found, level in zip(
            reader.gather_levels(ids, name), carry_fields(table, plain, steps).levels, strict=True
        ):
            assert set(found.fields) == set(level.fields)
            for key, field in level.fields.items():
                assert found.fields[key].values.dtype == field.values.dtype
                assert found.fields[key].values.tobytes() == field.values.tobytes(), key
    attributes = {
        n: [f.name for level in info.levels for f in level.fields] for n, info in reader.hierarchies.items()
    }
    assert attributes["a"].count("edge_attr") == 2  # the edges of nmf are not a contraction
    assert attributes["b"].count("edge_attr") == 1  # neither are those of ndp
    assert attributes["a"].count("names") == 3 and attributes["a"].count("target") == 0
    assert verify_store(built) == [] and verify_by_recompute(built) == []


def test_worker_processes_give_the_same_bytes(graphs, built, tmp_path):
    coarsen_dataset(config(graphs, tmp_path / "s", workers=2))
    assert digest(tmp_path / "s") == digest(built)


def test_any_executor_gives_the_same_bytes(graphs, built, tmp_path):
    with ThreadPoolExecutor(2) as executor:
        coarsen_dataset(config(graphs, tmp_path / "s"), executor=executor)
    assert digest(tmp_path / "s") == digest(built)


def test_an_incomplete_store_is_continued(graphs, built, tmp_path):
    out = shutil.copytree(built, tmp_path / "s")
    for name in ("shard-00001.a.h5", "manifest.json", "records/shard-00001.a.json"):
        (out / name).unlink()
    coarsen_dataset(config(graphs, out))
    assert digest(out) == digest(built)
    assert coarsen_dataset(config(graphs, out)).status == "up to date"


def test_values_do_not_depend_on_units_and_profile(graphs, built, tmp_path):
    coarsen_dataset(config(graphs, tmp_path / "s", shard_size=10**8, profile="small"))
    one, two = StoreReader(built), StoreReader(tmp_path / "s")
    assert two.num_shards == 1
    for name in "abc":
        for a, b in zip(one.gather_levels(range(25), name), two.gather_levels(range(25), name), strict=True):
            for key, field in a.fields.items():
                assert field.values.tobytes() == b.fields[key].values.tobytes(), key


def test_a_store_without_rules_has_the_bytes_of_before(graphs, tmp_path):
    coarsen_dataset(config(graphs, tmp_path / "s", carry=None))
    coarsen_dataset(config(graphs, tmp_path / "t", carry="none"))
    assert digest(tmp_path / "s") == digest(tmp_path / "t")
    manifest = (tmp_path / "s" / "manifest.json").read_text()
    assert "carry" not in manifest and '"minor": 2' in manifest  # 2 because of the texts
    with h5py.File(tmp_path / "s" / "shard-00000.a.h5") as file:
        assert "fields" not in file["levels/0"]


def fail_above(monkeypatch, nodes):
    """Let graphs with more nodes fail."""
    import tgp.engine.coarsening as engine

    whole = engine.assign_level

    def assign(block, spec, draw):
        bad = np.flatnonzero(np.diff(block.node_ptr) > nodes)
        if draw.level == 0 and bad.size:
            raise GraphError("test failure", graph=int(bad[0]))
        return whole(block, spec, draw)

    monkeypatch.setattr(engine, "assign_level", assign)


@pytest.mark.parametrize("poolers", ["nmf:k=3,graclus", "graclus*2"])
def test_failed_graphs_have_no_attributes(graphs, tmp_path, monkeypatch, poolers):
    fail_above(monkeypatch, 10)
    dataset = tgp.coarsen(
        graphs, poolers, out=tmp_path / "s", names="h", carry=CARRY, failed="skip", shard_size=3_000
    )
    reader, failed = dataset.reader, np.array([graph.num_nodes > 10 for graph in graphs])
    bounds = reader.manifest.spec.bounds
    assert any(failed[low:high].all() for low, high in pairwise(bounds))
    assert len(dataset) == (~failed).sum() > 0
    for level in reader.gather_levels(range(25), "h"):
        assert not np.diff(level.super_ptr)[failed].any()
        assert len(level.fields["x"].values) == level.super_ptr[-1]
    assert verify_store(tmp_path / "s") == []
    computed = PooledDataset(reader, carry={"x": "max"}, failed="skip")
    batch = next(iter(PoolDataLoader(computed, batch_size=4)))
    assert batch.pooled_data[0].x.shape == (batch.pooled_data[0].num_nodes, 3)


# Settings and errors ---------------------------------------------------------------------------------------


def test_forms_of_the_rules(graphs, tmp_path):
    wanted = "auto,pos=mean"
    for carry in ("pos=mean, auto", {"*": "auto", "pos": "mean"}, CarryRules.parse(wanted)):
        assert CoarsenConfig(graphs, carry=carry).carry == wanted
    assert CoarsenConfig(graphs, carry="none").carry is None
    file = tmp_path / "run.toml"
    file.write_text('carry = "auto,pos=mean"\n')
    assert load_config(file, {}).carry == wanted
    file.write_text('[carry]\n"*" = "auto"\npos = "mean"\n')
    assert load_config(file, {}).carry == wanted
    file.write_text("carry = 3\n")
    with pytest.raises(ParameterError, match="expected text or a mapping"):
        load_config(file, {})


@pytest.mark.parametrize(
    "carry, error, message",
    [
        ("pso=mean", UnknownNameError, "Did you mean 'pos'"),
        ("pos=avg", UnknownNameError, "reduction 'avg'"),
        ("names=mean", InputError, "'names' cannot be reduced by mean"),
        ("target=mean", InputError, "'target' cannot be carried"),
        ("edge_index=max", InputError, "cannot be carried"),
        ("pos", ParameterError, "expected 'auto' or attribute=reduction"),
    ],
)
def test_errors_come_before_anything_is_written(graphs, tmp_path, carry, error, message):
    with pytest.raises(error, match=message):
        tgp.coarsen(graphs, "graclus", out=tmp_path / "s", carry=carry)
    assert not (tmp_path / "s").exists()


def test_other_rules_are_another_hierarchy(graphs, built, tmp_path):
    out = shutil.copytree(built, tmp_path / "s")
    with pytest.raises(
        StoreMismatchError, match=r"hierarchy 'a': carry: .* in the store, auto asked for"
    ) as caught:
        coarsen_dataset(config(graphs, out, carry="auto"))
    assert "--name OTHER" in str(caught.value.hint)
    assert digest(out) == digest(built)


def test_a_dry_run_lists_the_attributes(graphs, tmp_path, capsys):
    plan = plan_run(config(graphs, tmp_path / "s", carry="pos=mean,y=majority"))
    assert {step["name"]: step["reduction"] for step in plan.carry} == {
        "num_members": "count", "pos": "mean", "y": "majority", "y_purity": "purity", "y_train": "majority",
        "y_mixed": "mixed",
    }  # fmt: skip
    assert not (tmp_path / "s").exists()
    options = ["--dataset", "molecules", "--limit", "5", "--carry", "x=max", "--out", str(tmp_path / "s")]
    assert command(["coarsen", *options, "--dry-run"]) == 0
    assert "attributes of the levels: num_members (count), x (max)" in capsys.readouterr().out
    assert command(["coarsen", *options]) == 0
    assert "attributes: num_members int64, x float32[4]" in capsys.readouterr().out
    assert command(["coarsen", *options, "--json"]) == 0
    level = json.loads(capsys.readouterr().out)["hierarchies"][0]["levels"][1]
    assert level["attributes"][1] == {"name": "x", "dtype": "float32", "per": "node", "shape": [4]}


# Commands --------------------------------------------------------------------------------------------------


def test_inspect_lists_attributes_and_purity(built, capsys):
    view = inspect_store(built, hierarchy="a")
    stored = StoreReader(built).gather_levels(range(25), "a")
    for summary, level in zip(view.hierarchies[0].levels, stored, strict=True):
        assert summary.metrics["y_mixed"] == level.fields["y_mixed"].values.sum()
        assert summary.metrics["y_purity"] == pytest.approx(level.fields["y_purity"].values.mean(), rel=1e-6)
    assert command(["inspect", str(built), "--hierarchy", "a"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert f"attributes ({CARRY})".replace(CARRY, str(CarryRules.parse(CARRY))) in text
    assert (
        "edge_attr float32[2] per edge (only level 1, 2)" in text and "y purity" in text and "y mixed" in text
    )


def test_verification_by_recomputing_compares_attributes(built, tmp_path):
    out = shutil.copytree(built, tmp_path / "s")

    def edit(file):
        file["levels/0/fields/x"][0, 0] += 1

    forge_shard(out, edit, "a", 1)
    first = StoreReader(out).manifest.spec.bounds[1]
    found = verify_by_recompute(out, sample=None)
    assert [(f.field, f.shard) for f in found] == [("/levels/0/fields/x", "shard-00001.a.h5")]
    assert found[0].graph == first


@pytest.mark.parametrize("to", ["npz", "pyg"])
def test_exports_contain_attributes(built, tmp_path, to):
    export_store(built, to, tmp_path, hierarchy="a", graphs="2:6")
    level = StoreReader(built).gather_level(range(2, 6), "a", 0)
    if to == "npz":
        arrays = dict(np.load(tmp_path / "level-1.npz"))
        ptrs = {name: arrays[f"{name}_ptr"] for name in level.fields}
    else:
        arrays, slices, _ = torch.load(tmp_path / "level-1.pt", weights_only=False)
        arrays = {key: np.asarray(value) for key, value in arrays.items()}
        ptrs = {key: value.numpy() for key, value in slices.items()}
    for name in ("x", "edge_attr", "y_mixed", "num_members"):
        np.testing.assert_array_equal(arrays[name], level.fields[name].values)
        np.testing.assert_array_equal(ptrs[name], level.fields[name].ptr)


# Attributes that are computed when graphs are read ---------------------------------------------------------


@pytest.fixture(scope="module")
def plain(graphs, tmp_path_factory):
    """Return the reader of a store without attributes on its levels."""
    out = tmp_path_factory.mktemp("plain") / "s"
    coarsen_dataset(config(graphs, out, carry=None))
    return StoreReader(out)


def same_levels(left, right):
    assert len(left) == len(right)
    for a, b in zip(left, right, strict=True):
        assert set(a.keys()) == set(b.keys())
        for key in a.to_dict():
            if isinstance(a[key], torch.Tensor):
                assert a[key].dtype == b[key].dtype and torch.equal(a[key], b[key]), key
            elif key != "so":
                assert a[key] == b[key], key


@pytest.mark.parametrize("name", ["a", "b", "c"])
@pytest.mark.parametrize("in_memory", [False, True])
def test_computed_attributes_equal_stored_ones(built, plain, name, in_memory):
    stored = PooledDataset(built, name)
    computed = PooledDataset(plain, name, carry=CARRY, in_memory=in_memory)
    ids = [2, 7, 0, 7, 24, 11]
    same_levels(computed.get_batch(ids).pooled_data, stored.get_batch(ids).pooled_data)
    same_levels(computed[5].pooled_data, stored[5].pooled_data)
    for a, b in zip(
        PoolDataLoader(computed[[1, 9, 4]], 2), PoolDataLoader(stored[[1, 9, 4]], 2), strict=True
    ):
        same_levels(a.pooled_data, b.pooled_data)
        assert set(a.keys()) == set(b.keys())
        same_levels(a.get_example(0).pooled_data, b.get_example(0).pooled_data)


def test_computed_attributes_of_some_levels_and_fields(built, plain):
    stored = PooledDataset(built, "a", levels=[2], fields=["target"], level_fields=["pos", "num_members"])
    computed = PooledDataset(plain, "a", levels=[2], fields=["target"], carry={"pos": "stats"})
    a, b = computed.get_batch([3, 1]), stored.get_batch([3, 1])
    assert set(a.keys()) == set(b.keys()) and "x" not in a
    same_levels(a.pooled_data, b.pooled_data)
    other = computed.with_hierarchy("b").get_batch([3, 1])
    same_levels(
        other.pooled_data,
        PooledDataset(plain, "b", fields=["target"], carry="pos=stats").get_batch([3, 1]).pooled_data,
    )


def test_workers_compute_attributes(built, plain):
    stored = PooledDataset(built, "b")
    loader = PoolDataLoader(PooledDataset(plain, "b", carry=CARRY), batch_size=8, num_workers=1)
    for found, wanted in zip(loader, PoolDataLoader(stored, batch_size=8), strict=True):
        same_levels(found.pooled_data, wanted.pooled_data)


def test_stored_attributes_are_not_computed(built):
    assert PooledDataset(built, "a", carry=CARRY)._steps == ()
    assert PooledDataset(built, "a", carry="pos=stats")._steps == ()
    changed = PooledDataset(built, "a", carry={"pos": "mean"})
    assert [step.name for step in changed._steps] == ["pos"]
    level = changed.get_batch([3, 4]).pooled_data[0]
    assert level.pos.shape[1] == 2 and "x" in level  # the store has pos=stats, with 6 columns


def test_rules_of_a_dataset_are_checked(plain):
    with pytest.raises(UnknownNameError, match="Did you mean 'pos'"):
        PooledDataset(plain, "a", carry="pso=mean")
    with pytest.raises(InputError, match="'target' cannot be carried"):
        PooledDataset(plain, "a", carry="target=mean")


def test_remote_stores(built, tmp_path):
    fsspec = pytest.importorskip("fsspec")
    from tgp.store.io.remote import RemoteFiles

    fsspec.filesystem("memory").put(str(built), "/carry/s", recursive=True)
    try:
        remote = PooledDataset(RemoteFiles("memory://carry/s", tmp_path), "b")
        same_levels(
            remote.get_batch([3, 20]).pooled_data, PooledDataset(built, "b").get_batch([3, 20]).pooled_data
        )
    finally:
        fsspec.filesystem("memory").rm("/carry", recursive=True)
