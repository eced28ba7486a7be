"""Formulas of the auxiliary losses, which take a view and work in both layouts."""

from tgp.utils.losses import balance, cut, reconstruct

FORMULAS = {
    "mincut": cut.mincut,
    "motif": cut.motif_mincut,
    "totvar": cut.total_variation,
    "orthogonality": balance.orthogonality,
    "hosc": balance.hosc_orthogonality,
    "cluster": balance.cluster_balance,
    "just_balance": balance.just_balance,
    "asym": lambda view: balance.asym_norm(view, view.k),
    "modularity": cut.modularity,
    "link": reconstruct.link_prediction,
    "link_normalized": lambda view: reconstruct.link_prediction(view, normalize_loss=True),
    "entropy": reconstruct.row_entropy,
}
