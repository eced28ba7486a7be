"""Histograms and line charts of the report."""

import numpy as np

from tgp.inspect.report.charts import (
    count_histogram,
    curve_chart,
    named_histogram,
    share_histogram,
)
from tgp.inspect.report.page import template_environment


def test_skewed_counts_get_bins_of_equal_ratio():
    values = np.concatenate([np.arange(1, 101), [5000]])
    histogram = count_histogram(values)
    assert histogram.scale == "log scale" and len(histogram.counts) <= 24
    assert sum(histogram.counts) == 101 and histogram.counts[-1] == 1
    assert [name for _, name in histogram.ticks] == ["1", "10", "100", "5,000"]
    places = [place for place, _ in histogram.ticks]
    assert places == sorted(places) and places[0] == 0 and places[-1] == 1
    assert count_histogram(np.arange(100)).scale == ""
    zero = count_histogram(np.array([0, 0, 0, 1, 1000]))
    assert zero.counts[:2] == (3, 1) and zero.names[0] == "0" and sum(zero.counts) == 5


def test_axis_has_round_numbers_between_its_ends():
    histogram = count_histogram(np.arange(7, 104))
    assert [name for _, name in histogram.ticks] == ["7", "50", "103"]
    # Bins start at 7 and have width 5, so 50 is in the ninth bin.
    assert abs(histogram.ticks[1][0] * len(histogram.counts) - (50.5 - 7) / 5) < 1e-9


def test_even_numbers_have_no_empty_bins():
    histogram = count_histogram(np.array([4, 4, 6, 8, 10, 10]))
    assert histogram.counts == (2, 1, 1, 2) and histogram.names == ("4", "6", "8", "10")
    wide = count_histogram(np.repeat(np.arange(20, 220, 2), 3))
    assert 0 not in wide.counts and sum(wide.counts) == 300


def draw(macro, *arguments):
    """Render a macro of the templates of charts."""
    template = template_environment().get_template("charts.html.jinja")
    return str(getattr(template.module, macro)(*arguments))


def test_few_bars_are_labelled_each():
    drawn = draw("histogram", named_histogram((3, 5), ("1", "2")), "Sizes", "things")
    assert ">1</text>" in drawn and ">2</text>" in drawn and drawn.count('text-anchor="middle"') == 2
    assert ">number of things</text>" in drawn and ">5</text>" in drawn and ">0</text>" in drawn, (
        "the vertical axis"
    )


def test_a_single_value_is_a_sentence():
    drawn = draw("histogram", count_histogram(np.full(7, 12345)), "Nodes", "graphs")
    assert "<b>12,345</b> in all 7 graphs" in drawn and "<svg" not in drawn


def test_fewer_than_two_values_have_no_histogram():
    assert count_histogram(np.array([3])) is None and share_histogram(np.zeros(0)) is None
    assert draw("histogram", None, "Nodes", "graphs") == ""


def test_curves_without_values_are_left_out():
    assert curve_chart("Edges", [("a", [None, None]), ("b", [1.0])]) is None
    drawn = draw("curves", curve_chart("Edges", [("a", [None, None]), ("b", [1.0, 0.5])]))
    assert ">b</li>" in drawn and ">a</li>" not in drawn


def test_curves_name_levels_from_the_input():
    chart = curve_chart("Nodes", [("a", [1.0, 0.5, 0.25])])
    assert [label for _, label in chart.levels] == ["0 (input)", "1", "2"]
    assert [point.text for point in chart.lines[0].points][1] == "a, level 1: 50.0 %"


def test_curves_above_100_percent_have_round_labels():
    drawn = draw("curves", curve_chart("Edges", [("a", [1.0, 3.1])]))
    assert ">100 %</text>" in drawn and ">300 %</text>" in drawn


def test_lines_of_many_hierarchies_look_different():
    chart = curve_chart("Nodes", [(str(i), [1.0, 0.5]) for i in range(24)])
    assert len({line.style for line in chart.lines}) == 24
