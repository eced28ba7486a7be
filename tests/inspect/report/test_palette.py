"""Colours can be distinguished with any kind of colour blindness."""

import itertools

import numpy as np
import pytest

from tgp.inspect.report.palette import COLOURS, DARK, LIGHT, THEMES, colour_rules

# Linear red, green and blue as seen with one kind of colour blindness (Machado et al., 2009, severity 1).
EYES = {
    "all cones": np.eye(3),
    "no red": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "no green": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "no blue": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}  # fmt: skip
TO_CONES = [[0.4122214708, 0.5363325363, 0.0514459929], [0.2119034982, 0.6806995451, 0.1073969566], [0.0883024619, 0.2817188376, 0.6299787005]]  # fmt: skip
TO_LAB = [[0.2104542553, 0.7936177850, -0.0040720468], [1.9779984951, -2.4285922050, 0.4505937099], [0.0259040371, 0.7827717662, -0.8086757660]]  # fmt: skip


def linear(colour):
    values = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def oklab(values):
    return np.array(TO_LAB) @ np.cbrt(np.array(TO_CONES) @ values)


def contrast(one, other):
    low, high = sorted(float(linear(c) @ [0.2126, 0.7152, 0.0722]) for c in (one, other))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("eyes", EYES)
@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
def test_all_pairs_of_colours_differ(palette, eyes):
    seen = [oklab(np.clip(np.array(EYES[eyes]) @ linear(colour), 0, 1)) for colour in palette]
    assert min(np.linalg.norm(a - b) for a, b in itertools.combinations(seen, 2)) > 0.08


@pytest.mark.parametrize(("palette", "theme"), [(LIGHT, "light"), (DARK, "dark")])
def test_every_colour_has_enough_contrast(palette, theme):
    assert min(contrast(colour, THEMES[theme]["card"]) for colour in palette) >= 3
    assert contrast(THEMES[theme]["edge"], THEMES[theme]["card"]) >= 3


def test_themes_define_the_same_colours():
    assert THEMES["light"].keys() == THEMES["dark"].keys() and len(DARK) == COLOURS
    rules = colour_rules()
    assert rules.count("{") == rules.count("}") and all(f".c{i}{{" in rules for i in range(COLOURS))
