"""Numbers formatted for people."""

from tgp.inspect.numbers import bytes_text, count_text, counted, figure_text, share_text


def test_figures_have_three_digits():
    values = (0.6, 14.04, 1.0, 12345.6, 0.0, None)
    assert [figure_text(v) for v in values] == ["0.600", "14.0", "1", "12,346", "0", "–"]
    assert figure_text(-0.0346) == "−0.0346"


def test_shares_are_percentages():
    assert [share_text(v) for v in (0.5861, 0.0, 7.94e-05)] == ["58.6 %", "0.0 %", "0.0079 %"]


def test_counts_have_a_noun_in_the_right_number():
    assert [counted(n, "graph") for n in (0, 1, 1234)] == ["0 graphs", "1 graph", "1,234 graphs"]
    assert counted(2, "hierarchy", "hierarchies") == "2 hierarchies"
    assert count_text(None) == "–" and count_text(None, "-") == "-"


def test_bytes_have_a_decimal_unit():
    assert [bytes_text(n) for n in (5, 1500, 2_500_000, 3e12)] == ["5 B", "1.5 kB", "2.5 MB", "3.0 TB"]
