"""Specifications and digests of the data: invalid values are refused, and every change of the data is noticed."""

import dataclasses

import numpy as np
import pytest

from tgp.errors import InputError
from tgp.ragged import GraphTable
from tgp.ragged.offsets import offsets
from tgp.store import DataDigest, HierarchySpec, StoreSpec, data_digest
from tgp.store.format import data_digest as digests
from tgp.testing.stores import halving_spec


@pytest.mark.parametrize("name", ["", "graphs", "a/b", "..", "a.b", "x" * 81, "ä", "-a", "NUL"])
def test_invalid_names_of_hierarchies_are_refused(name):
    with pytest.raises(InputError, match="name of a hierarchy"):
        HierarchySpec(name, [{"method": "m"}])


@pytest.mark.parametrize(
    "changes, text",
    [
        ({"bounds": (0,)}, "bounds must"),
        ({"bounds": (0, 3)}, "bounds must"),
        ({"bounds": (1, 40)}, "bounds must"),
        ({"bounds": (0, 30, 20, 40)}, "bounds must"),
        ({"profile": "tiny"}, "profile must be one of"),
        ({"hierarchies": (halving_spec("a"), halving_spec("A"))}, "upper and lower case"),
        ({"dataset": {"x": {1, 2}}}, "plain JSON"),
        ({"dataset": {"x": float("nan")}}, "plain JSON"),
    ],
)
def test_invalid_specifications_are_refused(changes, text):
    spec = StoreSpec({}, "0" * 64, 40, (0, 20, 40))
    with pytest.raises(InputError, match=text):
        dataclasses.replace(spec, **changes)


def test_the_digest_does_not_depend_on_the_size_of_the_pieces(table):
    whole = data_digest(table)
    for size in (1, 7, 40):
        digest = DataDigest()
        for low in range(0, 40, size):
            digest.update(table.take(np.arange(low, min(low + size, 40))))
        assert digest.hexdigest() == whole


def test_every_change_of_the_data_changes_the_digest(table):
    seen = {data_digest(table)}

    def add(fields, node_ptr=table.node_ptr):
        digest = data_digest(GraphTable(node_ptr, fields))
        assert digest not in seen
        seen.add(digest)

    for name, field in table.fields.items():
        values = field.values.copy()
        values.flat[-1] = not values.flat[-1]
        add({**table.fields, name: dataclasses.replace(field, values=values)})
        add({k: v for k, v in table.fields.items() if k != name})
    x = table.fields["x"]
    add({**table.fields, "x": dataclasses.replace(x, values=x.values.astype(np.float64))})
    add({**table.fields, "x": dataclasses.replace(x, values=x.values.reshape(-1, 7, 1))})
    y = table.fields["y"]
    add({**table.fields, "y": dataclasses.replace(y, form="stacked")})
    add({**table.fields, "y": dataclasses.replace(y, shifted=True)})
    sizes = np.diff(table.node_ptr)
    moved = sizes.copy()
    moved[:2] += (1, -1)
    add(table.fields, offsets(moved))
    order = np.arange(39, -1, -1)
    assert data_digest(table.take(order)) not in seen
    with pytest.raises(InputError, match="same fields"):
        digest = DataDigest()
        digest.update(table)
        digest.update(GraphTable(table.node_ptr, {}))


def test_the_digest_does_not_depend_on_threads(table, monkeypatch):
    whole, odd = data_digest(table), data_digest(table.take([3, 5]))
    monkeypatch.setattr(digests, "_THREADED_BYTES", 0)
    assert (data_digest(table), data_digest(table.take([3, 5]))) == (whole, odd)
    nodes_only = GraphTable(table.node_ptr, {})
    threaded = data_digest(nodes_only)
    monkeypatch.undo()
    assert data_digest(nodes_only) == threaded


def test_the_digest_does_not_depend_on_the_order_of_fields(table):
    turned = GraphTable(table.node_ptr, dict(reversed(table.fields.items())))
    assert data_digest(turned) == data_digest(table)
