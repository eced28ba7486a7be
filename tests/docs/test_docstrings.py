"""Docstrings as the pages of the API show them."""

import pytest


@pytest.fixture(scope="module")
def to_markdown(tool):
    return tool("rst").to_markdown


def test_parameters_explained_together_get_an_entry_each(to_markdown):
    text = "Args:\n    a, b,\n        c: see the\n        other.\n    d: alone, as: ever.\n"
    assert to_markdown(text) == (
        "Args:\n    a: see the other.\n    b: see the other.\n    c: see the other.\n    d: alone, as: ever.\n"
    )


def test_roles_lead_to_where_a_name_is_defined(to_markdown):
    link = '<autoref optional identifier="tgp.select.base_select.SelectOutput"><code>{}</code></autoref>'
    assert to_markdown(":class:`~tgp.select.SelectOutput`") == link.format("SelectOutput")
    assert to_markdown(":class:`tgp.select.SelectOutput`") == link.format("tgp.select.SelectOutput")
    assert to_markdown(":meth:`forward`") == "`forward`"
    assert to_markdown(":class:`so <tgp.select.base_select.SelectOutput>`") == link.format("so")


def test_links_code_and_tables(to_markdown):
    assert to_markdown('`"A title" <https://arxiv.org/abs/1>`_') == "[A title](https://arxiv.org/abs/1)"
    assert to_markdown("``x`` and `y`") == "`x` and `y`"
    table = "====  ======\na     first\nb     second\n====  ======\n"
    assert to_markdown(table) == "| name | meaning |\n| --- | --- |\n| a | first |\n| b | second |\n"


def test_formulas(to_markdown):
    text = to_markdown("Before.\n\n.. math::\n    x, \\quad\n    y\n\nAfter :math:`z`.\n")
    assert text.count("<math>") == 3 and "math::" not in text and "\\" not in text
    lines = text.splitlines()
    assert lines[0] == "Before." and lines[2].startswith('<p class="formula"><math>')
    assert lines[-1].startswith("After <span><math>") and lines[-1].endswith("</math></span>.")


def test_code_of_examples_is_kept(to_markdown):
    text = 'Examples:\n    >>> f(":math:`a`")\n    ``x`` :math:`b`\n'
    lines = to_markdown(text).splitlines()
    assert lines[1] == '    >>> f(":math:`a`")' and lines[2].startswith("    `x` <span>")
