"""``GraphHierarchy.reduced`` and ``expand``: a level as a plain graph to train on, and values back on the nodes."""

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.utils import erdos_renyi_graph

import tgp
from tgp.data import GraphHierarchy, PooledDataset, PreCoarsening
from tgp.errors import InputError

SCHEDULE = "graclus:count_edges=true*2"


def make_graph(seed=0, nodes=60, classes=3):
    """Return a random graph whose nodes have features, labels and a split in thirds."""
    torch.manual_seed(seed)
    part = torch.randint(0, 3, (nodes,))
    return Data(
        x=torch.randn(nodes, 4),
        edge_index=erdos_renyi_graph(nodes, 0.06),
        y=torch.randint(0, classes, (nodes,)),
        train_mask=part == 0,
        val_mask=part == 1,
        test_mask=part == 2,
    )


def hierarchy_of(data, schedule=SCHEDULE, **options):
    return tgp.coarsen(data, schedule, carry="auto", **options).as_hierarchy()


def members(hierarchy, level):
    """Return the input nodes of each supernode, found one by one."""
    found = [[] for _ in range(hierarchy[level].num_nodes)]
    for node in range(hierarchy[0].num_nodes):
        place = node
        for graph in hierarchy.levels[:level]:
            place = int(graph.so.cluster_index[place])
        found[place].append(node)
    return found


def expected_labels(data, nodes):
    """Return label, ``train_mask`` and ``val_mask`` of one supernode by the rule of the documentation."""
    train = {int(data.y[n]) for n in nodes if data.train_mask[n]}
    val = {int(data.y[n]) for n in nodes if data.val_mask[n]}
    in_train = len(train) == 1
    in_val = len(val) == 1 and (not in_train or train == val)
    return (*(train if in_train else val if in_val else {-1}), in_train, in_val)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("level", [1, 2])
def test_labels_and_features_of_the_members(seed, level):
    data = make_graph(seed)
    hierarchy = hierarchy_of(data)
    small = hierarchy.reduced(level)
    groups = members(hierarchy, level)
    found = list(zip(small.y.tolist(), small.train_mask.tolist(), small.val_mask.tolist(), strict=True))
    assert found == [expected_labels(data, nodes) for nodes in groups]
    torch.testing.assert_close(small.x, torch.stack([data.x[nodes].mean(0) for nodes in groups]))
    assert small.num_members.tolist() == [len(nodes) for nodes in groups]
    stored = hierarchy[level]
    assert torch.equal(small.edge_index, stored.edge_index)
    assert torch.equal(small.edge_weight, stored.edge_weight)
    assert torch.equal(small.train_mask, (stored.y_train >= 0) & ~stored.y_mixed)
    assert torch.equal(small.y[small.train_mask], stored.y_train[small.train_mask])


def test_it_is_a_plain_graph():
    small = hierarchy_of(make_graph()).reduced(1)
    assert type(small) is Data and small.validate()
    expected = {"x", "edge_index", "edge_weight", "y", "train_mask", "val_mask", "num_members", "num_nodes"}
    assert set(small.keys()) == expected


def test_labels_of_test_nodes_have_no_effect():
    data, other = make_graph(), make_graph()
    other.y = torch.where(data.test_mask, (data.y + 1) % 3, data.y)
    one, two = (hierarchy_of(graph).reduced(1) for graph in (data, other))
    assert one.keys() == two.keys()
    for name, value in one.items():
        assert name == "num_nodes" or torch.equal(value, two[name]), name


@pytest.mark.parametrize("how", ["store", "computed", "transform"])
def test_every_way_to_a_hierarchy_gives_the_same(how, tmp_path):
    data = make_graph()
    expected = hierarchy_of(data).reduced(2)
    if how == "store":
        hierarchy_of(data, out=tmp_path / "store")
        hierarchy = PooledDataset(tmp_path / "store").as_hierarchy()
    elif how == "computed":
        tgp.coarsen(data, SCHEDULE, out=tmp_path / "store")
        hierarchy = PooledDataset(tmp_path / "store", carry="auto").as_hierarchy()
    else:
        hierarchy = GraphHierarchy(PreCoarsening(SCHEDULE, carry="auto")(data))
    found = hierarchy.reduced(2)
    assert set(found.keys()) == set(expected.keys())
    for name, value in expected.items():
        assert name == "num_nodes" or torch.equal(value, found[name]), name


def test_other_labels_and_edge_attributes():
    """A second label is left out, because its majority depends on test nodes. Edge attributes stay."""
    data = make_graph()
    data.label_2 = data.y.clone()
    data.edge_attr = torch.rand(data.num_edges, 2)
    small = hierarchy_of(data).reduced(1)
    assert "edge_attr" in small and small.edge_attr.size(0) == small.num_edges
    assert not [name for name in small.keys() if name.startswith("label")]  # noqa: SIM118


def test_values_are_averaged_over_the_members_of_a_split():
    data = make_graph()
    data.y = torch.rand(data.num_nodes, 2)
    hierarchy = hierarchy_of(data)
    small = hierarchy.reduced(1)
    for index, nodes in enumerate(members(hierarchy, 1)):
        train = [n for n in nodes if data.train_mask[n]]
        val = [n for n in nodes if data.val_mask[n]]
        assert bool(small.train_mask[index]) == bool(train) and bool(small.val_mask[index]) == bool(val)
        if train or val:
            torch.testing.assert_close(small.y[index], data.y[train or val].mean(0))
        else:
            assert small.y[index].isnan().all()


def test_without_a_split_there_are_no_labels():
    data = make_graph()
    del data.train_mask, data.val_mask, data.test_mask
    small = hierarchy_of(data).reduced(1)
    assert "y" not in small and "x" in small


def test_dropped_nodes_have_no_supernode():
    data = make_graph()
    hierarchy = hierarchy_of(data, "ndp")
    dropped = torch.ones(60, dtype=torch.bool)
    dropped[hierarchy[1].so.node_index] = False
    assert dropped.any()
    small = hierarchy.reduced(1)
    assert int(small.num_members.sum()) == int((~dropped).sum())
    values = hierarchy.expand(torch.arange(small.num_nodes), 1, fill=-1)
    assert (values[dropped] == -1).all() and (values[~dropped] >= 0).all()


def test_soft_assignments_use_the_strongest_supernode():
    hierarchy = hierarchy_of(make_graph(), "nmf:k=5")
    small = hierarchy.reduced(1)
    strongest = hierarchy[1].so.s.squeeze(0).argmax(1)
    assert torch.equal(hierarchy.expand(torch.arange(5), 1), strongest)
    assert small.y.shape == (5,)


@pytest.mark.parametrize("level", [0, 1, 2])
def test_values_reach_the_members(level):
    hierarchy = hierarchy_of(make_graph())
    groups = members(hierarchy, level)
    values = torch.randint(0, 9, (len(groups), 2), dtype=torch.int16)
    found = hierarchy.expand(values, level)
    assert found.dtype == torch.int16 and found.shape == (60, 2)
    for index, nodes in enumerate(groups):
        assert (found[nodes] == values[index]).all()
    known = hierarchy.expand(values[:, 0] > 4, level)
    assert known.dtype == torch.bool and known.shape == (60,)


def test_errors_say_what_to_do():
    data = make_graph()
    plain = tgp.coarsen(data, "graclus*2").as_hierarchy()
    with pytest.raises(InputError, match="level 1 has no attributes") as caught:
        plain.reduced(1)
    assert "tgp coarsen --carry auto" in str(caught.value.hint)
    hierarchy = hierarchy_of(data)
    for level in (0, 3, "1"):
        with pytest.raises(InputError, match="expected a whole number from 1 to 2, got"):
            hierarchy.reduced(level)
    with pytest.raises(InputError, match=r"expected \d+, got \(60, 3\)"):
        hierarchy.expand(torch.zeros(60, 3), 1)
    with pytest.raises(InputError, match=r"expected \d+, got \(\)"):
        hierarchy.expand(torch.tensor(1.0), 1)
    data.train_mask = data.train_mask[:, None].repeat(1, 10)
    with pytest.raises(InputError, match=r"train_mask\[:, 0\]"):
        hierarchy_of(data).reduced(1)
    data.train_mask, data.y = data.train_mask[:, 0], torch.zeros(60, 2, dtype=torch.long)
    with pytest.raises(InputError, match="one label per node"):
        hierarchy_of(data).reduced(1)
