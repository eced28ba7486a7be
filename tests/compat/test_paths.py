"""Every public name of the API imports from where users expect it."""

import importlib

import pytest

import tgp

OPS = (
    "add_remaining_self_loops apply_dense_node_mask batched_negative_edge_sampling build_pooled_batch "
    "check_and_filter_edge_weights connectivity_to_edge_index connectivity_to_sparsetensor "
    "connectivity_to_torch_coo dense_to_block_diag expand_compacted_rows get_mask_from_dense_s is_dense_adj "
    "is_multi_graph_batch negative_edge_sampling postprocess_adj_pool_dense postprocess_adj_pool_sparse "
    "pseudo_inverse rank3_diag rank3_trace weighted_degree"
)
MORE_OPS = (
    "create_one_hot_tensor delta_gcn_matrix edge_index_to_vector_id get_assignments get_random_map_mask "
    "propagate_assignments_sparse sample_almost_k_edges vector_id_to_edge_index"
)
LOSSES = (
    "mincut_loss sparse_mincut_loss sparse_ho_mincut_loss orthogonality_loss unbatched_orthogonality_loss "
    "hosc_orthogonality_loss unbatched_hosc_orthogonality_loss cluster_loss unbatched_cluster_loss spectral_loss "
    "sparse_spectral_loss totvar_loss sparse_totvar_loss asym_norm_loss unbatched_asym_norm_loss just_balance_loss "
    "unbatched_just_balance_loss maxcut_loss link_pred_loss sparse_link_pred_loss entropy_loss "
    "unbatched_entropy_loss weighted_bce_reconstruction_loss kl_loss cluster_connectivity_prior_loss "
    "sparse_bce_reconstruction_loss BatchReductionType"
)
NAMES = {
    "tgp.select": "Select SelectOutput MLPSelect DPSelect EdgeContractionSelect EigenPoolSelect GraclusSelect "
    "IdentitySelect LaPoolSelect KMISSelect MaxCutSelect NDPSelect NMFSelect TopkSelect SEPSelect degree_scorer "
    "eigenpool_select MaxCutScoreNet select_classes select_functions",
    "tgp.select.base_select": "Select SelectOutput cluster_to_s",
    "tgp.reduce": "Reduce BaseReduce AggrReduce GlobalReduce EigenPoolReduce get_aggr reduce_classes reduce_functions",
    "tgp.reduce.get_aggr": "get_aggr resolve_reduce_op has_pyg_aggregation is_pyg_aggregation",
    "tgp.connect": "Connect SparseConnect DenseConnect EigenPoolConnect KronConnect sparse_connect connect_classes "
    "connect_functions",
    "tgp.connect.dense_conn": "DenseConnect dense_connect",
    "tgp.lift": "Lift BaseLift EigenPoolLift",
    "tgp.src": "PoolingOutput SRCPooling DenseSRCPooling Precoarsenable BasePrecoarseningMixin",
    "tgp.poolers": "AsymCheegerCutPooling ASAPooling BNPool DiffPool DMoNPooling EdgeContractionPooling EigenPooling "
    "GraclusPooling HOSCPooling JustBalancePooling KMISPooling LaPooling MaxCutPooling MinCutPooling NDPPooling "
    "NMFPooling NoPool PANPooling SAGPooling SEPPooling TopkPooling get_pooler pooler_map pooler_classes",
    "tgp.data": "PoolCollater PoolDataLoader PooledBatch NormalizeAdj PreCoarsening SortNodes",
    "tgp.data.transforms": "NormalizeAdj PreCoarsening SortNodes",
    "tgp.datasets": "CSBMDataset EXPWL1Dataset GraphClassificationBench GsetDataset MultipartiteGraphDataset "
    "PyGSPDataset dataset_classes",
    "tgp.mp": "GTVConv",
    "tgp.utils": f"{OPS} Signature foo_signature",
    "tgp.utils.ops": f"{OPS} {MORE_OPS}",
    "tgp.utils.losses": LOSSES,
    "tgp.utils.typing": "SinvType LiftType ConnectionType ReduceType",
    "tgp.utils.signature": "Signature foo_signature",
    "tgp.utils.cheatsheet": "POOLER_TEST_PARAMS supports_sparse supports_trainable supports_aux_loss "
    "extract_paper_links get_pooler_cheatsheet print_cheatsheet",
    "tgp.imports": "HAS_TORCH_CLUSTER HAS_TORCH_SPARSE HAS_TORCH_SCATTER HAS_PYGSP torch_cluster torch_sparse "
    "torch_scatter pygsp SparseTensor check_torch_cluster_available check_torch_sparse_available "
    "check_pygsp_available is_sparsetensor",
}


def cases():
    for module, names in NAMES.items():
        for name in names.split():
            yield module, name


@pytest.mark.parametrize(("module", "name"), list(cases()))
def test_name_imports(module, name):
    assert hasattr(importlib.import_module(module), name)


def test_package_level():
    assert tgp.eps == 1e-8 and isinstance(tgp.__version__, str)
    assert tgp.transforms is importlib.import_module("tgp.data.transforms")
    with pytest.raises(AttributeError):
        _ = tgp.missing
    with pytest.raises(ImportError):
        from tgp import Missing  # noqa: F401


def test_lists_of_names():
    from tgp import connect, reduce, select

    assert "TopkSelect" in select.select_classes and select.select_functions == [
        "degree_scorer",
        "eigenpool_select",
    ]
    assert reduce.reduce_functions == ["get_aggr"] and connect.connect_functions == ["sparse_connect"]
    assert callable(reduce.get_aggr)
