"""Select: assign nodes to supernodes.

Names are imported on first access.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tgp._lazy import lazy_package

if TYPE_CHECKING:
    from tgp.select.base_select import Select, SelectOutput, cluster_to_s
    from tgp.select.dp_select import DPSelect
    from tgp.select.edge_contraction_select import EdgeContractionSelect
    from tgp.select.eigenpool_select import EigenPoolSelect, eigenpool_select
    from tgp.select.graclus_select import GraclusSelect
    from tgp.select.identity_select import IdentitySelect
    from tgp.select.kmis_select import KMISSelect, degree_scorer
    from tgp.select.lapool_select import LaPoolSelect
    from tgp.select.level_select import LevelSelect
    from tgp.select.maxcut_select import MaxCutScoreNet, MaxCutSelect
    from tgp.select.mlp_select import MLPSelect
    from tgp.select.ndp_select import NDPSelect
    from tgp.select.nmf_select import NMFSelect
    from tgp.select.sep_select import SEPSelect
    from tgp.select.topk_select import TopkSelect

__all__ = [
    "Select",
    "SelectOutput",
    "MLPSelect",
    "DPSelect",
    "EdgeContractionSelect",
    "EigenPoolSelect",
    "GraclusSelect",
    "IdentitySelect",
    "LaPoolSelect",
    "KMISSelect",
    "MaxCutSelect",
    "NDPSelect",
    "NMFSelect",
    "TopkSelect",
    "SEPSelect",
    "degree_scorer",
    "eigenpool_select",
    "MaxCutScoreNet",
    "LevelSelect",
    "cluster_to_s",
    "select_classes",
    "select_functions",
]

select_functions: list[str] = ["degree_scorer", "eigenpool_select"]
"""Names of the functions of this package in tgp 1.0.2."""

select_classes: list[str] = __all__[: __all__.index(select_functions[0])]
"""Names of the classes of this package in tgp 1.0.2, which come first in ``__all__``."""

lazy_package(__name__)
