"""The hook of mkdocs keeps options and numbers on one line, and leaves code as it is."""

import pytest

SPACE = "\N{NO-BREAK SPACE}"


@pytest.fixture(scope="module")
def show(tool):
    return tool("hooks").on_page_content


@pytest.mark.parametrize(
    "text",
    ["75 ± 3", "2 * 10<sup>8</sup>", "1.7 GB", "1,288 MB", "95 %", "0.3 ms", "12 kB", "30 us", "0.1 µs"],
)
def test_no_line_ends_inside_a_number(show, text):
    assert show(f"<td>{text}</td> more") == f"<td>{text.replace(' ', SPACE)}</td> more"


@pytest.mark.parametrize(
    "text", ["5 ways", "2 * 3", "a ms", "10 usable", "3 MBs", "<pre>2 GB ± 1</pre>", "<code>2 GB</code>"]
)
def test_other_text_and_code_are_not_changed(show, text):
    assert show(text) == text


def test_exponents_are_raised(show):
    assert show("<td>10^6, 2^31 - 1 and 3 * 10^-7</td>") == (
        f"<td>10<sup>6</sup>, 2<sup>31</sup> - 1 and 3{SPACE}*{SPACE}10<sup>-7</sup></td>"
    )


@pytest.mark.parametrize("text", ["<code>10^6</code>", '<img alt="10^6">', "x10^6", "10^6a", "1.0^2"])
def test_exponents_in_code_and_tags_are_not_changed(show, text):
    assert show(text) == text


def test_options_are_marked_in_inline_code(show):
    assert show("<code>tgp --carry x</code>") == '<code>tgp <span class="option">--carry</span> x</code>'
