"""Reductions of rows by group, against plain Python and scatter."""

import math
from collections import Counter

import pytest
import torch

from tgp.errors import InputError, ParameterError, UnknownNameError
from tgp.utils.ops.reductions import GROUP_REDUCTIONS, check_reduction, reduce_groups

SIZE = 5


def rows(dtype, shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    group = torch.randint(0, SIZE - 1, (40,), generator=generator)  # the last group is empty
    numbers = torch.randint(-3, 4, (40, *shape), generator=generator)
    if dtype is torch.bool:
        return numbers > 0, group
    return numbers.to(dtype) + (0.25 if dtype.is_floating_point else 0), group


def oracle(values, how):
    """Return the reduction of a list of numbers."""
    if not values:
        return 0
    mean = sum(values) / len(values)
    counts = Counter(values)
    return {
        "sum": lambda: sum(values),
        "mean": lambda: mean,
        "max": lambda: max(values),
        "min": lambda: min(values),
        "mul": lambda: math.prod(values),
        "majority": lambda: min(v for v in counts if counts[v] == max(counts.values())),
        "any": lambda: any(values),
        "all": lambda: all(values),
        "first": lambda: values[0],
        "std": lambda: math.sqrt(sum((v - mean) ** 2 for v in values) / len(values)),
    }[how]()


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.float16, torch.int64, torch.int16, torch.bool]
)
@pytest.mark.parametrize("shape", [(), (3,), (2, 2), (40,), (0,)])
@pytest.mark.parametrize("how", GROUP_REDUCTIONS)
def test_reductions_agree_with_plain_python(how, shape, dtype):
    values, group = rows(dtype, shape)
    if how in ("any", "all") and dtype.is_floating_point:
        with pytest.raises(ParameterError, match="cannot be reduced by"):
            check_reduction(how, values, "edge_attr")
        return
    found = reduce_groups(values, group, SIZE, how)
    parts = ("mean", "std", "max") if how == "stats" else (how,)
    columns = values.reshape(40, math.prod(shape))
    expected = [
        [
            [oracle([v.item() for v in columns[group == g, d]], part) for d in range(columns.size(1))]
            for part in parts
        ]
        for g in range(SIZE)
    ]
    expected = torch.tensor(expected, dtype=torch.float64)
    if how == "majority" and dtype in (torch.int64, torch.int16):
        expected[-1] = -1
    if how != "stats":
        assert found.shape == (SIZE, *shape)
    elif len(shape) < 2:
        assert found.shape == (SIZE, 3 * math.prod(shape))
    else:
        expected = expected.view(SIZE, 3, *shape).transpose(1, 2)
    assert found.dtype == {
        "any": torch.bool,
        "all": torch.bool,
        "sum": dtype if dtype.is_floating_point else torch.int64,
        "mean": dtype if dtype.is_floating_point else torch.float32,
        "stats": dtype if dtype.is_floating_point else torch.float32,
    }.get(how, dtype)
    tolerance = 2e-3 if dtype is torch.float16 else 1e-6
    torch.testing.assert_close(
        found.double().reshape(-1), expected.reshape(-1), rtol=tolerance, atol=tolerance
    )


@pytest.mark.parametrize("how", ["sum", "mean", "max", "min", "mul", "first", "stats"])
@pytest.mark.parametrize("shape", [(), (2,), (33,)])
def test_gradients(how, shape):
    values, group = rows(torch.float64, shape)
    values = (values + torch.rand(values.shape, generator=torch.Generator().manual_seed(1)) / 8)[:12]
    assert torch.autograd.gradcheck(
        lambda v: reduce_groups(v, group[:12], SIZE, how),
        (values.requires_grad_(),),
        atol=1e-6,
        fast_mode=shape == (33,),
    )


def test_stats_of_equal_values_have_finite_gradients():
    values = torch.ones(4, 2, requires_grad=True)
    reduce_groups(values, torch.tensor([0, 0, 1, 1]), 2, "stats").sum().backward()
    assert torch.isfinite(values.grad).all()


def test_sums_are_rounded_once():
    # In float32 the small numbers would be lost one after the other.
    values = torch.tensor([2.0**24] + [1.0] * 64)
    assert reduce_groups(values, torch.zeros(65, dtype=torch.long), 1, "sum").item() == 2**24 + 64


def test_weights_count_in_means_and_votes():
    values, group = torch.tensor([1, 1, 2]), torch.zeros(3, dtype=torch.long)
    weight = torch.tensor([1, 1, 5])
    assert reduce_groups(values, group, 1, "majority").item() == 1
    assert reduce_groups(values, group, 1, "majority", weight=weight).item() == 2
    assert reduce_groups(values.double(), group, 1, "mean", weight=weight).item() == 12 / 7


def test_wrong_reductions_are_refused():
    with pytest.raises(UnknownNameError, match="Unknown reduction 'median'"):
        check_reduction("median", torch.ones(2), "edge_attr")
    with pytest.raises(InputError, match="NaN"):
        reduce_groups(torch.tensor([1.0, math.nan]), torch.tensor([0, 0]), 1, "majority")
