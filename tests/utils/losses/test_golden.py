"""Losses equal published values in both layouts."""

import math

import pytest
import torch
from torch.distributions import Beta

from tgp.utils import losses

PATH = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
S1 = torch.tensor([[0.9, 0.1], [0.2, 0.8], [0.75, 0.25]])
S2 = torch.tensor([[0.6, 0.4], [0.3, 0.7]])


@pytest.fixture
def flat():
    """Return two flat graphs: a path of three nodes and one edge of weight 2."""
    edges = torch.cat([PATH, torch.tensor([[3, 4], [4, 3]])], dim=1)
    weight = torch.tensor([1.0, 1, 1, 1, 2, 2])
    return {
        "S": torch.cat([S1, S2]),
        "edge_index": edges,
        "edge_weight": weight,
        "batch": torch.tensor([0, 0, 0, 1, 1]),
    }


@pytest.fixture
def padded():
    """Return the same two graphs, padded to three nodes."""
    adj = torch.zeros(2, 3, 3)
    adj[0, PATH[0], PATH[1]] = 1
    adj[1, 0, 1] = adj[1, 1, 0] = 2
    s = torch.zeros(2, 3, 2)
    s[0], s[1, :2] = S1, S2
    mask = torch.tensor([[1, 1, 1], [1, 1, 0]], dtype=torch.bool)
    return {"S": s, "adj": adj, "mask": mask, "pooled": s.transpose(1, 2) @ adj @ s}


DENSE = {
    "mincut": lambda p: losses.mincut_loss(p["adj"], p["S"], p["pooled"]),
    "orthogonality": lambda p: losses.orthogonality_loss(p["S"]),
    "hosc": lambda p: losses.hosc_orthogonality_loss(p["S"], p["mask"]),
    "spectral": lambda p: losses.spectral_loss(p["adj"], p["S"], p["pooled"], p["mask"]),
    "cluster": lambda p: losses.cluster_loss(p["S"], p["mask"]),
    "balance": lambda p: losses.just_balance_loss(p["S"], p["mask"]),
    "totvar": lambda p: losses.totvar_loss(p["S"], p["adj"]),
    "asym": lambda p: losses.asym_norm_loss(p["S"], 2, p["mask"]),
    "link": lambda p: losses.link_pred_loss(p["S"], p["adj"], normalize_loss=False),
    "link_normalised": lambda p: losses.link_pred_loss(p["S"], p["adj"], mask=p["mask"]),
    "entropy": lambda p: losses.entropy_loss(p["S"], 5),
}


def _edges(f):
    return {k: f[k] for k in ("edge_index", "S", "edge_weight", "batch")}


FLAT = {
    "mincut": lambda f: losses.sparse_mincut_loss(**_edges(f)),
    "motif": lambda f: losses.sparse_ho_mincut_loss(**_edges(f)),
    "orthogonality": lambda f: losses.unbatched_orthogonality_loss(f["S"], f["batch"]),
    "hosc": lambda f: losses.unbatched_hosc_orthogonality_loss(f["S"], f["batch"]),
    "spectral": lambda f: losses.sparse_spectral_loss(**_edges(f)),
    "cluster": lambda f: losses.unbatched_cluster_loss(f["S"], f["batch"]),
    "balance": lambda f: losses.unbatched_just_balance_loss(f["S"], f["batch"]),
    "totvar": lambda f: losses.sparse_totvar_loss(**_edges(f)),
    "asym": lambda f: losses.unbatched_asym_norm_loss(f["S"], 2, f["batch"]),
    "link": lambda f: losses.sparse_link_pred_loss(**_edges(f), normalize_loss=False),
    "link_normalised": lambda f: losses.sparse_link_pred_loss(**_edges(f)),
    "entropy": lambda f: losses.unbatched_entropy_loss(f["S"]),
}

VALUES = {
    "mincut": -0.635651,
    "motif": -0.635651,
    "orthogonality": 0.582012,
    "hosc": 0.736921,
    "spectral": 0.120156,
    "cluster": 0.015925,
    "balance": -0.784161,
    "totvar": 0.6125,
    "asym": 0.616667,
    "link": 3.129796,
    # Both layouts count real node pairs (13), not padding (18).
    "link_normalised": 0.240754,
    "entropy": 0.534339,
}


@pytest.mark.parametrize("name", DENSE)
def test_padded_value(name, padded):
    assert DENSE[name](padded).item() == pytest.approx(VALUES[name], abs=1e-5)


@pytest.mark.parametrize("name", FLAT)
def test_flat_value(name, flat):
    assert FLAT[name](flat).item() == pytest.approx(VALUES[name], abs=1e-5)


@pytest.mark.parametrize("name", FLAT)
def test_flat_value_in_any_order(name, flat):
    """Nodes and edges need not be grouped by graph."""
    order = torch.tensor([3, 0, 4, 2, 1])
    place = order.argsort()
    shuffled = {
        "S": flat["S"][order],
        "batch": flat["batch"][order],
        "edge_index": place[flat["edge_index"]].flip(1),
        "edge_weight": flat["edge_weight"].flip(0),
    }
    assert FLAT[name](shuffled).item() == pytest.approx(VALUES[name], abs=1e-5)


def test_maxcut():
    edges = torch.cat([PATH, torch.tensor([[3, 4], [4, 3]])], dim=1)
    weight = torch.tensor([1.0, 1, 1, 1, 2, 2])
    z, batch = torch.tensor([0.5, -0.4, 0.3, 0.2, -0.1]), torch.tensor([0, 0, 0, 1, 1])
    assert losses.maxcut_loss(z[:3], PATH).item() == pytest.approx(-0.16)
    assert losses.maxcut_loss(z, edges, weight, batch).item() == pytest.approx(-0.09)
    assert losses.maxcut_loss(z.view(-1, 1), edges, weight, batch, "sum").item() == pytest.approx(-0.18)
    assert losses.maxcut_loss(torch.tensor([1.0, -1.0]), PATH[:, :2]).item() == pytest.approx(-1)
    with pytest.raises(ValueError, match="Expected scores to have shape"):
        losses.maxcut_loss(torch.ones(3, 2), PATH)


def test_small_oracles():
    eye = torch.eye(2).unsqueeze(0)
    edge = torch.tensor([[[0.0, 1], [1, 0]]])
    assert losses.totvar_loss(eye, 2 * edge).item() == pytest.approx(2)
    assert losses.spectral_loss(edge, eye, edge).item() == pytest.approx(0.5)
    assert losses.link_pred_loss(eye, torch.zeros(1, 2, 2)).item() == pytest.approx(math.sqrt(2) / 4)
    assert losses.link_pred_loss(eye, torch.zeros(1, 2, 2), normalize_loss=False).item() == pytest.approx(
        math.sqrt(2)
    )
    assert losses.asym_norm_loss(torch.eye(4).unsqueeze(0), 4).item() == pytest.approx(0)
    assert losses.entropy_loss(torch.full((1, 2, 2), 0.5), 2).item() == pytest.approx(math.log(2), abs=1e-6)


def test_bayesian_losses():
    one_edge = torch.zeros(1, 2, 2)
    one_edge[0, 0, 1] = 1
    zero = torch.zeros(1, 2, 2)
    assert losses.weighted_bce_reconstruction_loss(zero, one_edge).item() == pytest.approx(6 * math.log(2))
    plain = losses.weighted_bce_reconstruction_loss(zero, one_edge, balance_links=False)
    assert plain.item() == pytest.approx(4 * math.log(2))
    loss, count = losses.sparse_bce_reconstruction_loss(
        torch.zeros(3), torch.ones(3), torch.tensor([0, 0, 2]), 3, "sum"
    )
    assert loss.item() == pytest.approx(2 * math.log(2))
    assert count.tolist() == [2, 1, 1]
    prior, posterior = Beta(torch.ones(1), torch.ones(1)), Beta(torch.tensor([2.0]), torch.tensor([3.0]))
    assert losses.kl_loss(posterior, prior).item() == pytest.approx(0.234907, abs=1e-5)
    ones = torch.ones(2, 2)
    assert losses.cluster_connectivity_prior_loss(ones, 0.0, 2.0).item() == pytest.approx(1)
    gamma = torch.tensor([1.0, 2.0])
    # One division by the batch size: the mean of 1/1 and 1/2.
    assert losses.cluster_connectivity_prior_loss(ones, 0.0, 2.0, gamma).item() == pytest.approx(0.75)
    assert losses.cluster_connectivity_prior_loss(ones, 0.0, 2.0, gamma, "sum").item() == pytest.approx(1.5)


def test_kl_argument_errors():
    beta = Beta(torch.ones(2, 1), torch.ones(2, 1))
    with pytest.raises(ValueError, match="Cannot specify both mask and batch"):
        losses.kl_loss(beta, beta, mask=torch.ones(2), batch=torch.zeros(2, dtype=torch.long))
    with pytest.raises(ValueError, match="Batch size must be specified"):
        losses.kl_loss(beta, beta, batch=torch.zeros(2, dtype=torch.long))


def test_unknown_reduction():
    with pytest.raises(ValueError, match=r"Batch reduction .* not allowed"):
        losses.orthogonality_loss(torch.ones(1, 2, 2), "max")
