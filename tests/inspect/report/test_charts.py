"""Histograms and numbers of the page."""

import numpy as np

from tgp.inspect.report.charts import (
    count_histogram,
    curves,
    draw_histogram,
    named_histogram,
    share_histogram,
)
from tgp.inspect.report.numbers import counted, figure_text, share_text


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
    # 24 bins of 5 from 7 on: 50 lies in the ninth.
    assert abs(histogram.ticks[1][0] * len(histogram.counts) - (50.5 - 7) / 5) < 1e-9


def test_even_numbers_leave_no_gaps():
    histogram = count_histogram(np.array([4, 4, 6, 8, 10, 10]))
    assert histogram.counts == (2, 1, 1, 2) and histogram.names == ("4", "6", "8", "10")
    wide = count_histogram(np.repeat(np.arange(20, 220, 2), 3))
    assert 0 not in wide.counts and sum(wide.counts) == 300


def test_few_bars_are_labelled_each():
    drawn = str(draw_histogram(named_histogram((3, 5), ("1", "2")), "Sizes", "things"))
    assert ">1</text>" in drawn and ">2</text>" in drawn and drawn.count('text-anchor="middle"') == 2
    assert ">5 things</text>" in drawn, "how high the axis reaches"


def test_a_single_value_is_a_sentence():
    drawn = str(draw_histogram(count_histogram(np.full(7, 12345)), "Nodes", "graphs"))
    assert "<b>12,345</b> in all 7 graphs" in drawn and "<svg" not in drawn


def test_nothing_to_count():
    assert count_histogram(np.array([3])) is None and share_histogram(np.zeros(0)) is None
    assert draw_histogram(None, "Nodes", "graphs") is None


def test_curves_without_values_are_left_out():
    assert curves("Edges", [("a", [None, None]), ("b", [1.0])]) is None
    drawn = str(curves("Edges", [("a", [None, None]), ("b", [1.0, 0.5])]))
    assert ">b</li>" in drawn and ">a</li>" not in drawn


def test_curves_above_the_start_have_round_shares():
    drawn = str(curves("Edges", [("a", [1.0, 3.1])]))
    assert ">100 %</text>" in drawn and ">300 %</text>" in drawn


def test_curves_of_many_hierarchies_differ():
    drawn = str(curves("Nodes", [(str(i), [1.0, 0.5]) for i in range(24)]))
    looks = {part.split('"')[0] for part in drawn.split('class="series ')[1:]}
    assert len(looks) == 24


def test_numbers_have_three_figures():
    assert [figure_text(v) for v in (0.6, 14.04, 1.0, 12345.6, 0.0, None)] == [
        "0.600",
        "14.0",
        "1",
        "12,346",
        "0",
        "–",
    ]
    assert figure_text(-0.0346) == "−0.0346"
    assert [counted(n, "node") for n in (1, 2000)] == ["1 node", "2,000 nodes"]
    assert [share_text(v) for v in (0.5861, 0.0, 7.94e-05)] == ["58.6 %", "0.0 %", "0.0079 %"]
