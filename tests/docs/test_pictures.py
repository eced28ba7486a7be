"""Pictures of the poolers, charts and flow charts: they show what the code computes and what the tables say, on light and dark pages."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
SVG = "{http://www.w3.org/2000/svg}"
GROUNDS = ("#ffffff", "#1e2129", "#0d1117")
"""Background of a light page, of a dark page, and of dark pages on code hosts."""


@pytest.fixture(scope="module")
def pictures(tool):
    return tool("pictures")


@pytest.fixture(scope="module")
def charts(tool):
    return tool("charts")


def luminance(colour):
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_colours_are_readable_on_light_and_dark_pages(tool):
    svg = tool("svg")
    for colour in (*svg.COLOURS, svg.FAINT):
        assert min(contrast(colour, ground) for ground in GROUNDS) >= 3, colour
    assert min(contrast(svg.INK, ground) for ground in GROUNDS) >= 3.8
    assert len(set(svg.COLOURS)) == len(svg.COLOURS)


FILES = sorted(
    [
        *(DOCS / "img/poolers").iterdir(),
        *(DOCS / "img/charts").iterdir(),
        *(DOCS / "img/flows").iterdir(),
        *(DOCS / "img").glob("*y.svg"),
        DOCS / "img" / "leaderboard.svg",
    ]
)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_files_are_small_transparent_and_use_the_colours(path, tool):
    svg = tool("svg")
    root = ElementTree.parse(path).getroot()
    assert root.tag == f"{SVG}svg" and root.find(f"{SVG}title").text
    assert set(re.findall("#[0-9a-f]{6}", path.read_text())) <= {*svg.COLOURS, svg.INK, svg.FAINT}
    width = float(root.get("viewBox").split()[2])
    grounds = [r for r in root.iter(f"{SVG}rect") if float(r.get("width")) >= width]
    assert not grounds and not list(root.iter(f"{SVG}script"))


def numbers(text):
    return [float(number) for number in re.findall(r"-?\d+(?:\.\d+)?", re.sub("#[0-9a-f]{6}", "", text))]


@pytest.mark.parametrize(
    "name",
    [
        "affinity",
        "bistride",
        "eigen",
        "graclus",
        "hem",
        "kmis",
        "lv",
        "ndp",
        "nmf",
        "nopool",
        "random",
        "sep",
        "collapse",
        "amg",
        "simmatch",
        "ugc",
        "voxel",
        "fps",
        "partition",
    ],
)
def test_pictures_of_deterministic_poolers_are_up_to_date(name, pictures):
    drawn = pictures.before_after(name, pictures.pool(name, pictures.PLACES, pictures.example_graph()))
    kept = (DOCS / f"img/poolers/{name}.svg").read_text()
    assert re.findall("#[0-9a-f]{6}", drawn) == re.findall("#[0-9a-f]{6}", kept), (
        "run docs/_tools/pictures.py"
    )
    assert numbers(drawn) == pytest.approx(numbers(kept), abs=0.3)


@pytest.mark.slow
def test_pictures_of_other_poolers_are_up_to_date(pictures):
    """Training ends in slightly different weights on other processors: only the sizes are compared."""
    for name in pictures.names():
        title = pictures.pool(name, pictures.PLACES, pictures.example_graph()).title
        kept = re.search("<title>(.*)</title>", (DOCS / f"img/poolers/{name}.svg").read_text())[1]
        assert kept == f"{name}: {title}", "run docs/_tools/pictures.py"


def test_the_picture_of_a_hierarchy_is_that_of_its_schedule(pictures):
    kept = (DOCS / "img/hierarchy.svg").read_text()
    assert numbers(pictures.hierarchy(("graclus", "graclus"))) == pytest.approx(numbers(kept), abs=0.3)


PAGE = """
| set | schedule | graphs/s |
|---|---|---|
| NCI1 | `a*3` | 1,000 |
| NCI1 | `b` | > 60 or failed |
| MUTAG | `a*3` | 7 |
"""


def test_a_chart_has_the_figures_of_the_table(charts):
    chart = charts.Chart("speed", ("set", "schedule"), "schedule", {"graphs/s": "tgp"}, {"set": ("NCI1",)})
    assert charts.read_chart(chart, PAGE) == [("a*3", ["1,000"]), ("b", ["> 60 or failed"])]
    root = ElementTree.fromstring(charts.draw_chart(chart, PAGE))
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert texts[-4:] == ["a*3", "1,000", "b", "> 60 or failed"]
    lengths = [float(bar.get("width")) for bar in root.iter(f"{SVG}rect")]
    assert lengths[0] > 100 and lengths[1] == 0


def test_lengths_of_bars_are_proportional(charts):
    chart = charts.Chart("speed", ("set", "schedule"), ("set", "schedule"), {"graphs/s": "tgp"})
    page = "| set | schedule | graphs/s |\n|---|---|---|\n| x | a | 200 |\n| x | b | 50 |\n"
    root = ElementTree.fromstring(charts.draw_chart(chart, page))
    long, short = (float(bar.get("width")) for bar in root.iter(f"{SVG}rect"))
    assert long == pytest.approx(4 * short, rel=0.01)


def test_a_chart_without_its_table_is_an_error(charts):
    chart = charts.Chart("speed", ("set", "schedule"), "schedule", {"graphs/s": "tgp"}, {"set": ("DD",)})
    with pytest.raises(SystemExit, match="no row"):
        charts.read_chart(chart, PAGE)
    with pytest.raises(SystemExit, match="one table"):
        charts.read_chart(chart, "no table")


def test_markup_and_units_of_cells(charts):
    page = "| edges | memory |\n|---|---|\n| 2 * 10<sup>12</sup> | 2 GB |\n| 3 | 145 MB |\n| 4 | 7 kB |\n"
    chart = charts.Chart("memory", ("edges", "memory"), "edges", {"memory": "tgp"})
    groups = charts.read_chart(chart, page)
    assert groups[0] == ("2 * 10¹²", ["2 GB"])
    assert [charts.value_of(cells[0]) for _, cells in groups] == [2000, 145, 0.007]
    assert charts.value_of("2 levels") is None


def test_charts_stand_above_their_tables(charts):
    for name, chart in charts.CHARTS.items():
        assert len(chart.title) <= 50, f"{name}: the title must fit a narrow page"
        page = (DOCS / chart.page).read_text().replace("`", "")
        picture = page.index(f"img/charts/{name}.svg)")
        header = re.search(r"^\| " + r" \| ".join(map(re.escape, chart.columns)) + r" \|", page, flags=re.M)
        between = page[picture : header.start()].partition(")")[2]
        words = re.sub(r"!\[.*?\]\(.*?\)|</?(details|summary).*", "", between)
        assert not words.strip(), f"{name}: no text between the chart and its table"


def test_boxes_and_texts_of_flow_charts_are_inside_the_picture(tool):
    flows = tool("flows")
    for name, flow in flows.FLOWS.items():
        root = ElementTree.fromstring(flows.draw_flow(flow))
        boxes = [
            tuple(float(box.get(key)) for key in ("x", "y", "width", "height"))
            for box in root.iter(f"{SVG}rect")
        ]
        assert len(boxes) == len(flow.boxes)
        assert all(x > 0 and x + width < flows.WIDTH for x, _, width, _ in boxes), name
        for place, (x, y, width, _) in enumerate(boxes):
            same_row = [box for box in boxes[place + 1 :] if abs(box[1] - y) < 1]
            assert all(x + width + 5 < box[0] or box[0] + box[2] + 5 < x for box in same_row), name
        drawn = {text.text for text in root.iter(f"{SVG}text")}
        assert drawn == {box[0] for box in flow.boxes.values()} | {
            words for *_, words in flow.arrows if words
        }


def test_arrows_of_a_flow_chart_connect_its_boxes(tool):
    flows = tool("flows")
    for flow in flows.FLOWS.values():
        ends = [name for *pair, _ in flow.arrows for name in pair]
        assert set(ends) == set(flow.boxes)


def test_values_beside_the_bars_are_inside_the_picture(charts):
    page = "| size | memory |\n|---|---|\n| large | 23370 MB |\n| small | 1 MB |\n"
    chart = charts.Chart("memory", ("size", "memory"), "size", {"memory": "tgp"})
    root = ElementTree.fromstring(charts.draw_chart(chart, page))
    ends = {text.text: float(text.get("x")) + 8 * len(text.text) for text in root.iter(f"{SVG}text")}
    assert max(ends["23370 MB"], ends["1 MB"]) <= charts.WIDTH
