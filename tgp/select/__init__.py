"""Select: which nodes form which supernodes. Names resolve on first access."""

from tgp._lazy import lazy_package

_CLASSES = {
    "Select": "base_select",
    "SelectOutput": "base_select",
    "MLPSelect": "mlp_select",
    "DPSelect": "dp_select",
    "EdgeContractionSelect": "edge_contraction_select",
    "EigenPoolSelect": "eigenpool_select",
    "GraclusSelect": "graclus_select",
    "IdentitySelect": "identity_select",
    "LaPoolSelect": "lapool_select",
    "KMISSelect": "kmis_select",
    "MaxCutSelect": "maxcut_select",
    "NDPSelect": "ndp_select",
    "NMFSelect": "nmf_select",
    "TopkSelect": "topk_select",
    "SEPSelect": "sep_select",
}
_FUNCTIONS = {"degree_scorer": "kmis_select", "eigenpool_select": "eigenpool_select"}
_MORE = {"MaxCutScoreNet": "maxcut_select", "LevelSelect": "level_select", "cluster_to_s": "base_select"}

select_classes = list(_CLASSES)
select_functions = list(_FUNCTIONS)

__all__ = [*lazy_package(__name__, {**_CLASSES, **_FUNCTIONS, **_MORE}), "select_classes", "select_functions"]
