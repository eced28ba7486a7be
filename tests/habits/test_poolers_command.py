"""``tgp poolers``: read about a pooler, choose one, copy the command."""

import json

from typer.testing import CliRunner

from tgp_cli.main import build_app


def tgp(*words):
    return CliRunner().invoke(build_app(words), words)


def test_read_about_a_method():
    shown = tgp("poolers", "eigen").stdout
    for word in ("tgp coarsen --pooler eigen", "Good for", "Avoid when", "Complexity", "arxiv.org", "before"):
        assert word in shown
    assert "k  int; default 8" in shown and "Number of supernodes per graph." in shown


def test_read_about_a_trainable_pooler():
    shown = tgp("poolers", "mincut").stdout
    assert 'get_pooler("mincut", in_channels=..., k=...)' in shown
    assert "cut_loss_coeff  float; default 1.0" in shown and "Coefficient of the cut loss." in shown
    assert "No drawing" in shown and "cannot precompute" in shown


def test_parameters_as_json():
    card = json.loads(tgp("poolers", "kmis", "--json").stdout)
    scorer = next(p for p in card["parameters"] if p["name"] == "scorer")
    assert (
        scorer["choices"] == ["random", "constant", "canonical", "degree"] and scorer["default"] == "degree"
    )
    assert card["good_for"] and card["papers"][0]["url"].startswith("https://") and card["drawing"]


def test_choose_by_options():
    shown = tgp("poolers", "--choose", "--exact-k", "6", "--nodes", "300", "--dataset", "MUTAG").stdout
    assert "tgp coarsen --pooler eigen:k=6 --dataset MUTAG" in shown
    assert "exactly 6 supernodes" in shown and "graclus:" not in shown


def test_choose_in_a_pipe_states_its_assumptions():
    result = tgp("poolers", "--choose")
    assert result.exit_code == 0 and "graphs of up to 1,000 nodes" in result.stdout
    assert "tgp coarsen --pooler 'graclus*2'" in result.stdout


def test_choose_a_layer_as_json():
    answer = json.loads(tgp("poolers", "--train", "--connected", "--json").stdout)
    assert answer[0]["alias"] == "mincut" and "get_pooler" in answer[0]["command"]
    assert "topk" not in [choice["alias"] for choice in answer]


def test_nothing_fits():
    result = tgp("poolers", "--choose", "--nodes", "10000000000")
    assert result.exit_code == 1 and "No pooler fits" in result.stdout


def test_a_name_and_choose_contradict_each_other():
    result = tgp("poolers", "graclus", "--choose")
    assert result.exit_code == 2 and "tgp poolers graclus" in result.stderr
