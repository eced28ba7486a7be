"""Constructors and functions take the arguments they always took, in their order, with their defaults."""

import importlib
import inspect

import pytest

_DENSE = (
    "remove_self_loops=True, degree_norm=True, edge_weight_norm=False, adj_transpose=True, lift='precomputed', "
    "s_inv_op='transpose', batched=True, sparse_output=False, cache_preprocessing=False"
)
_SPARSE = (
    "lift='precomputed', s_inv_op='transpose', connect_red_op='sum', lift_red_op='sum', remove_self_loops={loops}, "
    "degree_norm=False, edge_weight_norm=False"
)
_SCORED = "ratio=0.5, min_score=None, multiplier=1.0, nonlinearity='tanh', " + _SPARSE
_MLP = "in_channels, k, act=None, dropout=0.0, "

POOLERS = {
    "TopkPooling": "in_channels, " + _SCORED.format(loops=True),
    "SAGPooling": "in_channels, ratio=0.5, GNN=None, min_score=None, multiplier=1.0, nonlinearity='tanh', "
    + _SPARSE.format(loops=True),
    "ASAPooling": "in_channels, ratio=0.5, GNN=None, dropout=0.0, negative_slope=0.2, add_self_loops=False, "
    "nonlinearity='sigmoid', " + _SPARSE.format(loops=True),
    "PANPooling": "in_channels, " + _SCORED.format(loops=False),
    "EdgeContractionPooling": "in_channels, edge_score_method=None, dropout=0.0, add_to_edge_score=0.5, "
    + _SPARSE.format(loops=True),
    "MaxCutPooling": "in_channels, ratio=0.5, assign_all_nodes=True, max_iter=5, loss_coeff=1.0, mp_units=[32, 32, 32, 32], "
    "mp_act='tanh', mlp_units=[16, 16], mlp_act='relu', act='tanh', delta=2.0, lift='precomputed', "
    "s_inv_op='transpose', connect_red_op='sum', lift_red_op='sum', remove_self_loops=True, degree_norm=False, "
    "edge_weight_norm=True",
    "DiffPool": _MLP + "link_loss_coeff=1.0, ent_loss_coeff=1.0, normalize_loss=False, " + _DENSE,
    "MinCutPooling": _MLP + "cut_loss_coeff=1.0, ortho_loss_coeff=1.0, " + _DENSE,
    "AsymCheegerCutPooling": _MLP + "totvar_coeff=1.0, balance_coeff=1.0, " + _DENSE,
    "BNPool": "in_channels, k, alpha_DP=1.0, K_var=1.0, K_mu=10.0, K_init=1.0, eta=1.0, train_K=True, act=None, "
    "dropout=0.0, " + _DENSE + ", num_neg_samples=None",
    "LaPooling": "shortest_path_reg=False, remove_self_loops=True, degree_norm=True, edge_weight_norm=False, "
    "lift='precomputed', s_inv_op='transpose', lift_red_op='sum', batched=True, sparse_output=False",
    "NDPPooling": "lift='precomputed', s_inv_op='transpose', lift_red_op='sum', cached=False",
    "GraclusPooling": "lift='precomputed', s_inv_op='transpose', connect_red_op='sum', lift_red_op='sum', cached=False, "
    "remove_self_loops=True, degree_norm=False, edge_weight_norm=False",
    "KMISPooling": "in_channels=None, order_k=1, scorer='linear', score_heuristic='greedy', force_undirected=False, "
    "lift='precomputed', s_inv_op='transpose', reduce_red_op='sum', connect_red_op='sum', lift_red_op='sum', "
    "remove_self_loops=True, degree_norm=False, edge_weight_norm=False, cached=False",
    "NMFPooling": "k, cached=False, remove_self_loops=True, degree_norm=True, edge_weight_norm=False, adj_transpose=True, "
    "lift='precomputed', s_inv_op='transpose', batched=False, sparse_output=False, cache_preprocessing=False",
    "EigenPooling": "k, num_modes=5, normalized=True, cached=False, remove_self_loops=True, degree_norm=True, "
    "edge_weight_norm=False, adj_transpose=True, lift='precomputed', s_inv_op='transpose', batched=False, "
    "sparse_output=False, cache_preprocessing=False",
    "NoPool": "",
}
OPERATORS = {
    "tgp.select.SelectOutput": "s=None, s_inv=None, node_index=None, num_nodes=None, cluster_index=None, "
    "num_supernodes=None, weight=None, s_inv_op='transpose', batch=None, in_mask=None",
    "tgp.select.TopkSelect": "in_channels=None, ratio=0.5, min_score=None, act='tanh', s_inv_op='transpose'",
    "tgp.select.MLPSelect": "in_channels, k, batched_representation=True, act=None, dropout=0.0, s_inv_op='transpose'",
    "tgp.select.DPSelect": "in_channels, k, batched_representation=True, act=None, dropout=0.0, s_inv_op='transpose'",
    "tgp.select.base_select.cluster_to_s": "cluster_index, node_index=None, weight=None, as_edge_index=False, "
    "num_nodes=None, num_supernodes=None",
    "tgp.connect.SparseConnect": "reduce_op='sum', remove_self_loops=True, edge_weight_norm=False, degree_norm=False",
    "tgp.connect.DenseConnect": "remove_self_loops=True, degree_norm=True, adj_transpose=True, edge_weight_norm=False, "
    "sparse_output=False",
    "tgp.connect.KronConnect": "sparse_threshold=0.01",
    "tgp.connect.sparse_connect": "edge_index, edge_weight=None, node_index=None, cluster_index=None, num_nodes=None, "
    "num_supernodes=None, remove_self_loops=True, reduce_op='sum', edge_weight_norm=False, batch_pooled=None, "
    "degree_norm=False",
    "tgp.lift.BaseLift": "matrix_op='precomputed', reduce_op='sum'",
    "tgp.src.SRCPooling": "selector=None, reducer=None, lifter=None, connector=None, cached=False",
    "tgp.src.DenseSRCPooling": "selector=None, reducer=None, lifter=None, connector=None, cached=False, "
    "adj_transpose=False, batched=True, sparse_output=False, cache_preprocessing=False",
    "tgp.src.PoolingOutput": "x=None, edge_index=None, edge_weight=None, batch=None, so=None, loss=None",
    "tgp.mp.GTVConv": "in_channels, out_channels, bias=True, delta_coeff=1.0, eps=0.001, act='relu'",
    "tgp.utils.ops.get_assignments": "kept_node_indices, edge_index=None, max_iter=5, batch=None, num_nodes=None",
    "tgp.utils.ops.negative_edge_sampling": "edge_index, num_nodes=None, num_neg_samples=None, method='auto', "
    "force_undirected=False",
}
FORWARDS = {
    "TopkPooling": "x adj edge_weight so batch attn lifting",
    "GraclusPooling": "x adj edge_weight so batch lifting",
    "NoPool": "x adj edge_weight so batch lifting",
    "MinCutPooling": "x adj edge_weight so mask batch batch_pooled lifting",
    "BNPool": "x adj edge_weight so batch batch_pooled lifting mask",
    "LaPooling": "x adj edge_weight so batch batch_pooled lifting mask",
    "SAGPooling": "x adj edge_weight so batch attn lifting",
}


def cases():
    everything = {**{f"tgp.poolers.{name}": text for name, text in POOLERS.items()}, **OPERATORS}
    for path, text in everything.items():
        yield pytest.param(path, text, id=path)


def find(path):
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def expected(text):
    return list(inspect.signature(eval(f"lambda {text}: 0")).parameters.values())


@pytest.mark.parametrize(("path", "text"), list(cases()))
def test_old_calls_still_mean_the_same(path, text):
    parameters = [p for p in inspect.signature(find(path)).parameters.values() if p.name != "self"]
    old = expected(text)
    for new, was in zip(parameters, old, strict=False):
        default = list(new.default) if isinstance(was.default, list) else new.default
        assert (new.name, default) == (was.name, was.default)
    assert len(parameters) >= len(old)
    optional = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    assert all(p.default is not p.empty or p.kind in optional for p in parameters[len(old) :])


@pytest.mark.parametrize(("name", "order"), list(FORWARDS.items()))
def test_positional_order_of_forward(name, order):
    from tgp import poolers

    names = getattr(poolers, name).get_forward_signature().args
    assert names[: len(order.split())] == order.split()
