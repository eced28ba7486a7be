"""Histograms and numbers of the page."""

import numpy as np

from tgp.report.charts import Histogram, count_histogram, draw_histogram
from tgp.report.numbers import figure_text, share_text


def test_skewed_counts_get_bins_of_equal_ratio():
    values = np.concatenate([np.arange(1, 101), [5000]])
    histogram = count_histogram(values)
    assert histogram.scale == "log scale" and len(histogram.counts) <= 24
    assert sum(histogram.counts) == 101 and histogram.counts[-1] == 1
    assert (histogram.low, histogram.high) == ("1", "5,000")
    assert count_histogram(np.arange(100)).scale == ""
    zero = count_histogram(np.array([0, 0, 0, 1, 1000]))
    assert zero.counts[:2] == (3, 1) and zero.names[0] == "0" and sum(zero.counts) == 5


def test_few_bars_are_labelled_each():
    drawn = str(draw_histogram(Histogram((3, 5), ("1", "2"), "1", "2"), "Sizes", "things"))
    assert ">1</text>" in drawn and ">2</text>" in drawn and drawn.count('text-anchor="middle"') == 2


def test_numbers_have_three_figures():
    assert [figure_text(v) for v in (0.6, 14.04, 1.0, 12345.6, 0.0, None)] == [
        "0.600",
        "14.0",
        "1",
        "12,346",
        "0",
        "–",
    ]
    assert [share_text(v) for v in (0.5861, 0.0, 7.94e-05)] == ["58.6 %", "0.0 %", "0.0079 %"]
