"""Auxiliary losses as functions. Each is a formula over a view (:mod:`tgp.utils.layout`)."""

from tgp import eps
from tgp.utils.losses._shared import BatchReductionType
from tgp.utils.losses.balance import (
    asym_norm_loss,
    cluster_loss,
    hosc_orthogonality_loss,
    just_balance_loss,
    orthogonality_loss,
    unbatched_asym_norm_loss,
    unbatched_cluster_loss,
    unbatched_hosc_orthogonality_loss,
    unbatched_just_balance_loss,
    unbatched_orthogonality_loss,
)
from tgp.utils.losses.cut import (
    maxcut_loss,
    mincut_loss,
    sparse_ho_mincut_loss,
    sparse_mincut_loss,
    sparse_spectral_loss,
    sparse_totvar_loss,
    spectral_loss,
    totvar_loss,
)
from tgp.utils.losses.reconstruct import (
    cluster_connectivity_prior_loss,
    entropy_loss,
    kl_loss,
    link_pred_loss,
    sparse_bce_reconstruction_loss,
    sparse_link_pred_loss,
    unbatched_entropy_loss,
    weighted_bce_reconstruction_loss,
)
from tgp.utils.ops import check_and_filter_edge_weights, rank3_diag, rank3_trace

__all__ = [
    "BatchReductionType",
    "asym_norm_loss",
    "check_and_filter_edge_weights",
    "cluster_connectivity_prior_loss",
    "cluster_loss",
    "entropy_loss",
    "eps",
    "hosc_orthogonality_loss",
    "just_balance_loss",
    "kl_loss",
    "link_pred_loss",
    "maxcut_loss",
    "mincut_loss",
    "orthogonality_loss",
    "rank3_diag",
    "rank3_trace",
    "sparse_bce_reconstruction_loss",
    "sparse_ho_mincut_loss",
    "sparse_link_pred_loss",
    "sparse_mincut_loss",
    "sparse_spectral_loss",
    "sparse_totvar_loss",
    "spectral_loss",
    "totvar_loss",
    "unbatched_asym_norm_loss",
    "unbatched_cluster_loss",
    "unbatched_entropy_loss",
    "unbatched_hosc_orthogonality_loss",
    "unbatched_just_balance_loss",
    "unbatched_orthogonality_loss",
    "weighted_bce_reconstruction_loss",
]
