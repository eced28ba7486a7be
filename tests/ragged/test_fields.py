"""Fields and tables of graph attributes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tgp.errors import InputError
from tgp.ragged import Field, GraphTable
from tgp.ragged.fields import take_ragged


def table():
    node_ptr = np.array([0, 2, 2, 5])
    return GraphTable(
        node_ptr,
        {
            "x": Field("x", np.arange(10.0).reshape(5, 2), node_ptr),
            "edge_index": Field(
                "edge_index",
                np.array([[0, 1, 0, 2], [1, 0, 2, 1]]),
                np.array([0, 2, 2, 4]),
                axis=-1,
                shifted=True,
            ),
            "y": Field("y", np.array([7, 8, 9]), np.arange(4), form="int"),
        },
    )


@given(st.lists(st.integers(0, 4), min_size=1, max_size=6), st.data())
def test_take_ragged(sizes, data):
    ptr = np.concatenate([[0], np.cumsum(sizes)])
    ids = np.array(data.draw(st.lists(st.integers(0, len(sizes) - 1), max_size=6)), dtype=np.int64)
    new_ptr, positions = take_ragged(ptr, ids)
    expected = [list(range(ptr[i], ptr[i + 1])) for i in ids]
    assert new_ptr.tolist() == np.cumsum([0] + [len(part) for part in expected]).tolist()
    assert positions.tolist() == [p for part in expected for p in part]


def test_take_reorders_every_field():
    taken = table().validate().take([2, 0])
    assert taken.node_ptr.tolist() == [0, 3, 5]
    assert taken.num_nodes == 5
    assert taken.fields["x"].values.tolist() == [[4, 5], [6, 7], [8, 9], [0, 1], [2, 3]]
    assert taken.fields["edge_index"].values.tolist() == [[0, 2, 0, 1], [2, 1, 1, 0]]
    assert taken.fields["y"].values.tolist() == [9, 7]
    assert taken.fields["y"].form == "int"
    assert taken.fields["edge_index"].shifted
    taken.validate()


def test_item():
    fields = table().fields
    assert fields["edge_index"].item(2).tolist() == [[0, 2], [2, 1]]
    assert fields["x"].item(1).shape == (0, 2)
    assert fields["y"].item(1).tolist() == [8]
    assert fields["x"].num_graphs == 3


@pytest.mark.parametrize("ids", [[3], [-1]])
def test_take_of_unknown_graphs_raises(ids):
    with pytest.raises(InputError, match=r"\[0, 3\)"):
        table().take(ids)


@pytest.mark.parametrize(
    "bad",
    [
        Field("f", np.arange(4), np.array([0, 2, 4])),
        Field("f", np.arange(4), np.array([0, 2, 3, 5])),
        Field("f", np.arange(4), np.array([0, 3, 2, 4])),
        Field("f", np.array([0, 1, 0, 3]), np.array([0, 2, 2, 4]), shifted=True),
        Field("f", np.array([[0, 1, -1, 2]]), np.array([0, 2, 2, 4]), axis=-1, shifted=True),
    ],
    ids=["few offsets", "long offsets", "falling", "id too large", "negative id"],
)
def test_validate_names_the_field(bad):
    with pytest.raises(InputError) as caught:
        GraphTable(np.array([0, 2, 2, 5]), {"f": bad}).validate()
    assert caught.value.field == "f"
