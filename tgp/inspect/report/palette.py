"""Define the colours of the report and of plots: a light and a dark theme, and the colours and shapes of supernodes."""

from __future__ import annotations

import numpy as np

from tgp.kernels.array_types import LongArray

__all__ = ["COLOURS", "DARK", "LIGHT", "LOOKS", "SHAPES", "THEMES", "choose_looks", "colour_rules"]

LIGHT = ("#2c6d9e", "#e1712a", "#0da885", "#85095b", "#c067df", "#bc3f51", "#1d36ac", "#494503")
"""Colours of supernodes on white. People with any kind of colour blindness can distinguish all pairs. The contrast to white
is at least 3 : 1."""

DARK = ("#4abbf3", "#e3aa35", "#75edac", "#f96ba8", "#a24ac1", "#d15c10", "#7e7bff", "#e0e33b")
"""Colours of supernodes on the dark background, in the same order of hues where possible."""

COLOURS = len(LIGHT)
"""Number of colours of supernodes."""

SHAPES = ("circle", "square", "triangle", "diamond")
"""Shapes of nodes. More supernodes than colours are distinguished by their shape."""

LOOKS = COLOURS * len(SHAPES)
"""Number of looks: pairs of a colour and a shape."""

THEMES = {
    "light": {
        "page": "#f5f6f8", "card": "#ffffff", "ink": "#1b2430", "soft": "#566170", "line": "#dfe4ea",
        "accent": "#1f5c9e", "bar": "#4a86c5", "mark": "#e1712a", "ghost": "#dde3ea", "edge": "#64707e",
        "good": "#1d7a46", "bad": "#b3261e", "flag": "#fdecc8", "flag-ink": "#7a4a00",
    },
    "dark": {
        "page": "#11151b", "card": "#1a2029", "ink": "#e6ebf1", "soft": "#a3afbd", "line": "#333d4a",
        "accent": "#7db4f0", "bar": "#5b9ae0", "mark": "#e3aa35", "ghost": "#303a47", "edge": "#98a4b3",
        "good": "#6cc796", "bad": "#ff8a80", "flag": "#4a3a12", "flag-ink": "#ffd479",
    },
}  # fmt: skip


def _theme(name: str, colours: tuple[str, ...]) -> str:
    values = THEMES[name] | {f"c{i}": colour for i, colour in enumerate(colours)}
    return f"color-scheme:{name};" + "".join(f"--{key}:{value};" for key, value in values.items())


def colour_rules() -> str:
    """Return the CSS rules of the colours. Printed pages always use the light theme."""
    light, dark = _theme("light", LIGHT), _theme("dark", DARK)
    rules = [
        f":root{{{light}}}",
        f'@media screen and (prefers-color-scheme:dark){{:root:not([data-theme="light"]){{{dark}}}}}',
        f'@media screen{{:root[data-theme="dark"]{{{dark}}}}}',
    ]
    # A class sets a variable, so that nodes, bands and lines of charts share these rules.
    rules += [f".c{i}{{--own:var(--c{i})}}" for i in range(COLOURS)]
    return "\n".join(rules) + "\n"


def choose_looks(edges: LongArray, count: int, position: LongArray, own: LongArray) -> LongArray:
    """Choose a look for every supernode. Look ``i`` has colour ``i % COLOURS`` and shape ``i // COLOURS``.

    Up to ``LOOKS`` supernodes all look different. In any case neighbours have different colours as far as possible, and a
    supernode keeps the look of one of its members if it can.

    Args:
        edges: ``[2, e]`` edges between supernodes.
        count: number of supernodes.
        position: ``[n]`` supernode of each node, -1 if it has none.
        own: ``[n]`` look of each node, -1 if it has none.

    Returns:
        ``[count]`` looks.
    """
    wanted: list[list[int]] = [[] for _ in range(count)]
    for head, look in zip(position.tolist(), own.tolist(), strict=True):
        if head >= 0 and look >= 0:
            wanted[head].append(look)
    neighbours: list[list[int]] = [[] for _ in range(count)]
    for low, high in edges.T.tolist():
        neighbours[low].append(high)
        neighbours[high].append(low)
    available = LOOKS if count > COLOURS else COLOURS  # few supernodes are all circles
    looks, used = [-1] * count, [0] * available
    for head in range(count):
        near = {looks[other] for other in neighbours[head]}
        hues = {look % COLOURS for look in near if look >= 0}
        preferred = {look % available for look in wanted[head]}

        def cost(
            look: int, near: set[int] = near, hues: set[int] = hues, preferred: set[int] = preferred
        ) -> tuple[int, ...]:
            repeated = used[look] if count <= available else int(look in near)
            return (repeated, look % COLOURS in hues, look not in preferred, used[look], look)

        looks[head] = min(range(available), key=cost)
        used[looks[head]] += 1
    return np.array(looks, np.int64)
