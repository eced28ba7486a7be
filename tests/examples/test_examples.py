"""Every example runs, says how to use it, and answers a slip in one line."""

import importlib.util
import re
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from tgp.data import PreCoarsening
from tgp.datasets import load_graphs
from tgp.errors import DatasetError, TgpError

FOLDER = Path(__file__).resolve().parents[2] / "examples"
NAMES = sorted(path.stem for path in FOLDER.glob("*.py"))
GENERATED = ["bond_features", "hetero_levels", "mesh_levels"]
"""Examples that make their data themselves."""
DATASET = [name for name in NAMES if name != "demo" and name not in GENERATED]
"""Examples that take a dataset; the demo shows the built-in one."""
GRAPHS = ["classification", "custom_pooler", "precoarsening", "store_training"]
"""Examples that want graphs with one class each."""


@pytest.fixture(scope="module")
def load():
    """An example as a module, once."""
    found = {}

    def get(name):
        if name not in found:
            spec = importlib.util.spec_from_file_location(f"example_{name}", FOLDER / f"{name}.py")
            found[name] = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(found[name])
        return found[name]

    return get


@pytest.fixture(autouse=True)
def same_random_state():
    state = torch.get_rng_state()
    yield
    torch.set_rng_state(state)


@pytest.mark.parametrize("name", NAMES)
def test_is_short_and_shows_two_commands(name):
    text = (FOLDER / f"{name}.py").read_text()
    assert len(text.splitlines()) < 120
    commands = re.findall(rf"^python examples/{name}\.py", text.split('"""')[1], flags=re.M)
    assert len(commands) >= 2


@pytest.mark.parametrize("name", NAMES)
def test_help_explains(name, load, capsys):
    example = load(name)
    with pytest.raises(SystemExit) as stopped:
        example.main(["--help"])
    assert stopped.value.code == 0
    shown = capsys.readouterr().out
    assert example.__doc__.splitlines()[0].split(":")[0] in shown and "--help" in shown


def test_table_of_the_readme_is_complete():
    rows = re.findall(r"^\| \[(\w+)\.py\]\((\w+)\.py\)", (FOLDER / "README.md").read_text(), flags=re.M)
    assert sorted(one for one, _ in rows) == NAMES
    assert all(one == other for one, other in rows)


@pytest.mark.parametrize("name", DATASET)
def test_an_unknown_dataset_is_an_error_that_says_so(name, load, tmp_path):
    if name == "dask_cluster":
        pytest.importorskip("distributed")
        words = ["--scheduler", "tcp://127.0.0.1:9", "--out", str(tmp_path)]
    else:
        words = []
    with pytest.raises(DatasetError, match="MUTAG"):
        load(name).main(["--dataset", "MUTAGG", "--root", str(tmp_path), *words])


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("classification", ["--dataset", "families:num_graphs=10", "--epochs", "1", "--seeds", "1"]),
        ("clustering", []),
        ("node_classification", ["--dataset", "regions:num_nodes=100"]),
        ("graph_unet", ["--dataset", "regions:num_nodes=100"]),
        ("precoarsening", ["--dataset", "molecules:num_graphs=4"]),
        ("store_training", ["--dataset", "molecules:num_graphs=10"]),
        ("custom_pooler", ["--dataset", "molecules:num_graphs=4"]),
        ("big_graph", ["--dataset", "regions:num_nodes=100"]),
        ("train_on_reduced", ["--dataset", "regions:num_nodes=100"]),
    ],
)
def test_an_unknown_pooler_is_an_error_that_says_so(name, words, load):
    with pytest.raises(TgpError, match=r"graclos.*graclus"):
        load(name).main([*words, "--pooler", "graclos"])


@pytest.mark.parametrize("name", DATASET)
def test_errors_come_without_traceback(name, monkeypatch, tmp_path):
    words = ["--dataset", "Coraa", "--root", str(tmp_path)]
    words += ["--scheduler", "tcp://127.0.0.1:9"] if name == "dask_cluster" else []
    if name == "dask_cluster":
        pytest.importorskip("distributed")
    monkeypatch.setattr(sys, "argv", [name, *words])
    with pytest.raises(SystemExit) as stopped:
        runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")
    message = str(stopped.value.code)  # Python prints it and exits with 1
    assert message.startswith("Error: 'Coraa' is neither") and len(message.splitlines()) <= 2


@pytest.mark.parametrize("name", GRAPHS)
def test_one_graph_with_labels_of_nodes_is_no_set_of_classes(name, load):
    with pytest.raises(TgpError, match="class"):
        load(name).main(["--dataset", "regions:num_nodes=100"])


@pytest.mark.parametrize("name", GRAPHS)
def test_graphs_without_features_are_told_apart_by_degree(name, load, tmp_path):
    """Rings and stars of five nodes, no ``x``."""
    ring, star = np.array([[0, 1, 2, 3, 4], [1, 2, 3, 4, 0]]), np.array([[0, 0, 0, 0], [1, 2, 3, 4]])
    both = [np.concatenate([one, one[::-1]], axis=1) for one in (ring, star)]
    kinds = np.arange(40) % 2
    edges = [both[kind] for kind in kinds]
    ptr = np.cumsum([0, *(one.shape[1] for one in edges)])
    arrays = {"edge_index": np.concatenate(edges, axis=1), "y": kinds, "edge_ptr": ptr}
    np.savez(tmp_path / "shapes.npz", **arrays, node_ptr=5 * np.arange(41))
    words = {"classification": ["--seeds", "1"], "precoarsening": ["--pooler", "graclus"]}.get(name, [])
    assert load(name).main(["--dataset", str(tmp_path / "shapes.npz"), "--epochs", "1", *words])


def test_custom_pooler_knows_its_changes(load):
    with pytest.raises(TgpError, match=r"crown.*kron"):
        load("custom_pooler").main(["--dataset", "molecules:num_graphs=4", "--pooler", "topk+crown"])


def test_big_graph_needs_a_known_label(load):
    with pytest.raises(TgpError, match="--share"):
        load("big_graph").main(["--dataset", "regions:num_nodes=100", "--levels", "1", "--share", "0"])


@pytest.mark.parametrize("conv", ["gcn", "mean"])
def test_node_classification_convolves_in_two_ways(conv, load):
    words = ["--dataset", "regions:num_nodes=100", "--levels", "1", "--epochs", "1", "--pooler", "ndp"]
    assert list(load("node_classification").main([*words, "--conv", conv])) == ["commonest", "ndp", "nopool"]


def test_the_demo_leaves_a_page_to_look_at(load, capfd, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert load("demo").main(["--epochs", "1"]) in (0, 1)  # one epoch may not be enough to learn
    out = capfd.readouterr().out
    assert "$ tgp coarsen --pooler 'graclus*2'" in out and "with pooled levels" in out
    assert "Time: compiling " in out and " s, running " in out
    assert (tmp_path / "out" / "demo" / "report.html").stat().st_size > 10_000
    assert load("demo").main(["--pooler", "graclos"]) == 2  # the command has said why


def test_node_classification(load, capsys):
    words = ["--dataset", "regions:num_nodes=400", "--levels", "2", "--epochs", "2"]
    found = load("node_classification").main([*words, "--pooler", "graclus,topk,mincut,eigen"])
    assert list(found) == ["commonest", "graclus", "topk", "mincut", "eigen", "nopool"]
    assert "accuracy" in capsys.readouterr().out


def test_graph_unet_trains(load, capsys):
    words = ["--dataset", "regions:num_nodes=400:noise=80", "--levels", "2", "--epochs", "12"]
    found = load("graph_unet").main([*words, "--pooler", "graclus,topk,mincut"])
    assert list(found) == ["commonest", "graclus", "topk", "mincut", "nopool"]
    assert found["graclus"] > found["commonest"], found
    assert "accuracy" in capsys.readouterr().out


@pytest.fixture
def one_thread():
    """Sums are added in the same order on every machine; the fixture ``threads`` restores the number."""
    torch.set_num_threads(1)


@pytest.mark.usefixtures("one_thread")
def test_mesh_levels_trains(load, capsys):
    words = ["--meshes", "40", "--nodes", "60", "--epochs", "10", "--seeds", "1"]
    found = load("mesh_levels").main([*words, "--levels", "graclus*2"])
    assert list(found) == ["zero", "graclus*2", "no levels"]
    assert found["graclus*2"] < 0.9 * found["zero"], found
    assert "60 -> 60 -> 60 nodes" in capsys.readouterr().out  # the baseline has as many levels


def test_mesh_levels_uses_carried_positions_and_lengths(load):
    """Other values on a level give another result."""
    example = load("mesh_levels")
    mesh = example.make_mesh(40, 0)
    graph = PreCoarsening("graclus", carry="pos=mean,edge_attr=mean")(mesh)
    torch.manual_seed(0)
    net, level = example.VCycle(1), graph.pooled_data[0]
    before = net(graph)
    level.pos = level.pos.flip(0)
    moved = net(graph)
    level.edge_attr = 2 * level.edge_attr
    assert not torch.allclose(before, moved) and not torch.allclose(moved, net(graph))


@pytest.mark.usefixtures("one_thread")
def test_bond_features_are_learned_from_levels_alone(load, capsys):
    found = load("bond_features").main(["--graphs", "240", "--epochs", "12", "--levels", "graclus"])
    assert list(found) == ["nowhere", "input graph", "levels", "both"]
    assert found["levels"] > 0.65 and found["both"] > 0.65, found
    assert "60 molecules" in capsys.readouterr().out


def test_bond_types_have_the_same_share_in_both_classes(load):
    """Labels must not be visible in the number of double bonds."""
    example = load("bond_features")
    plain = load_graphs("molecules:num_graphs=2")[0]
    spread, gathered = (example.add_bonds(plain, seed) for seed in (0, 1))
    assert [int(one.y) for one in (spread, gathered)] == [0, 1]
    assert spread.edge_attr.sum(0).tolist() == gathered.edge_attr.sum(0).tolist()


@pytest.mark.usefixtures("one_thread")
def test_hetero_levels_trains(load, capsys):
    found = load("hetero_levels").main(
        ["--films", "480", "--labels", "0.2", "--epochs", "25", "--seeds", "1"]
    )
    assert list(found) == ["guess", "graclus*2", "no levels"]
    assert found["graclus*2"] > found["guess"] + 0.15, found
    assert "directors: 120 " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("mesh_levels", ["--nodes", "5"]),
        ("bond_features", ["--graphs", "2"]),
        ("hetero_levels", ["--labels", "0"]),
        *((name, ["--levels", "graclos"]) for name in GENERATED),
    ],
)
def test_generated_examples_end_without_traceback(name, words, monkeypatch):
    small = {"mesh_levels": ["--meshes", "4"], "bond_features": ["--graphs", "8"], "hetero_levels": []}[name]
    monkeypatch.setattr(sys, "argv", [name, *small, *words])
    with pytest.raises(SystemExit) as stopped:
        runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")
    assert str(stopped.value.code).startswith("Error: ")


@pytest.mark.slow
def test_node_classification_profits_from_coarse_levels(load):
    words = ["--dataset", "regions:num_nodes=1600:parts=9:noise=80", "--pooler", "graclus", "--epochs", "30"]
    found = load("node_classification").main(words)
    assert found["graclus"] > found["commonest"] + 0.2, found


@pytest.mark.parametrize("name", ["node_classification", "train_on_reduced"])
def test_classification_of_nodes_needs_labels(name, load):
    with pytest.raises(TgpError, match="label for every node"):
        load(name).main(["--dataset", "grid"])


@pytest.mark.usefixtures("one_thread")
def test_a_network_learns_on_a_reduced_graph(load, capsys):
    words = ["--dataset", "regions:num_nodes=900:parts=4:noise=20", "--epochs", "60"]
    found = load("train_on_reduced").main(words)  # a tenth of the nodes
    assert list(found) == ["original", "reduced", "expanded"]
    assert found["reduced"] > 0.8 and found["expanded"] > 0.7, found  # four classes
    rows = {line.split()[2]: line.split() for line in capsys.readouterr().out.splitlines()[:2]}
    assert int(rows["reduced"][3]) == 90 and int(rows["original"][3]) == 900


def test_precoarsening_equals_online_pooling(load, capsys):
    words = ["--dataset", "molecules:num_graphs=60", "--epochs", "2", "--pooler", "ndp,graclus,kmis"]
    found = load("precoarsening").main(words)
    assert found["online"][0] == pytest.approx(found["pre-coarsened"][0], rel=1e-4)
    assert "pre-coarsened" in capsys.readouterr().out


def test_precoarsening_refuses_a_trainable_pooler(load):
    with pytest.raises(TgpError, match=r"topk|Topk"):
        load("precoarsening").main(["--dataset", "molecules:num_graphs=4", "--pooler", "topk"])


def test_store_training_continues_where_it_stopped(load, capsys, tmp_path):
    words = ["--dataset", "molecules:num_graphs=100", "--epochs", "2", "--store", str(tmp_path / "store")]
    found = load("store_training").main([*words, "--pooler", "topk,mincut,bnpool"])
    assert list(found) == ["commonest", "topk", "mincut", "bnpool", "nopool"]
    out = capsys.readouterr().out
    assert out.count("parameters equal: True") == 4 and "False" not in out
    assert (tmp_path / "store" / "manifest.json").exists()


def test_custom_pooler(load, capsys):
    found = load("custom_pooler").main(["--dataset", "molecules:num_graphs=40", "--epochs", "1"])
    assert list(found) == ["nopool", "topk", "topk+kron", "climb", "climb+max"]
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    nodes, edges = ({row[0]: int(row[column]) for row in rows} for column in (2, 3))
    assert nodes["climb"] < nodes["nopool"] and edges["topk+kron"] > edges["topk"]


def test_the_climbing_selector_gathers_slopes_under_peaks(load):
    select = load("custom_pooler").ClimbSelect(1)
    with torch.no_grad():
        select.score.weight.fill_(1)
    heights = torch.tensor([[1.0], [3.0], [2.0], [0.0], [5.0], [4.0]])
    path = torch.tensor([[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]])
    out = select(heights, torch.cat([path, path.flip(0)], dim=1))
    assert out.cluster_index.tolist() == [0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize("dataset", ["regions:num_nodes=2500:parts=9", "grid:num_nodes=900"])
def test_big_graph(dataset, load, capsys, tmp_path):
    words = ["--dataset", dataset, "--levels", "2", "--share", "0.05", "--landmarks", "5"]
    found = load("big_graph").main([*words, "--keep", str(tmp_path / "store")])
    full, lifted, more = found.values()
    assert list(found) == ["full graph", "level 2, lifted", "level 2, 10 more sweeps"]
    assert full[1] == 1 and full[0] > 0.6
    assert lifted[0] > full[0] - 0.2 and more[0] > full[0] - 0.2
    assert "GraphHierarchy(" in capsys.readouterr().out


def test_big_graph_does_not_forget_rare_labels(load, tmp_path):
    """A quarter of the nodes has the second label; the largest mean alone would give it to hardly any."""
    draw, y = np.random.default_rng(0), (np.arange(400) >= 300).astype(np.int64)
    joined = draw.random((400, 400)) < np.where(y[:, None] == y, 0.08, 0.02)
    edges = np.stack(np.nonzero(np.triu(joined, 1)))
    np.savez(tmp_path / "two.npz", edge_index=np.concatenate([edges, edges[::-1]], axis=1), y=y)
    found = load("big_graph").main(
        ["--dataset", str(tmp_path / "two.npz"), "--levels", "1", "--share", "0.1"]
    )
    assert all(accuracy > 0.85 for accuracy, _, _ in found.values()), found


@pytest.mark.slow
def test_dask_cluster_gives_the_same_bytes(tmp_path):
    pytest.importorskip("distributed")
    words = [sys.executable, str(FOLDER / "dask_cluster.py"), "--dataset", "molecules:num_graphs=100"]
    words += ["--pooler", "graclus", "--workers", "1", "--out", str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "same bytes" in done.stdout


def test_dask_cluster_is_skipped_without_dask(load, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert load("dask_cluster").main([]) is None
    assert capsys.readouterr().out.startswith("skipped: ")
