"""Poolers by class and by alias.

Names are imported on first access. The classes come from the table in :mod:`tgp.poolers.table`; the imports below show
them to type checkers and editors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tgp._lazy import lazy_package
from tgp.poolers.factory import get_pooler, register_pooler
from tgp.poolers.table import POOLERS, pooler_classes, pooler_map

if TYPE_CHECKING:
    from tgp.poolers.asap import ASAPooling as ASAPooling
    from tgp.poolers.asym_cheeger_cut import AsymCheegerCutPooling as AsymCheegerCutPooling
    from tgp.poolers.bnpool import BNPool as BNPool
    from tgp.poolers.diffpool import DiffPool as DiffPool
    from tgp.poolers.dmon import DMoNPooling as DMoNPooling
    from tgp.poolers.edge_contraction import EdgeContractionPooling as EdgeContractionPooling
    from tgp.poolers.eigenpool import EigenPooling as EigenPooling
    from tgp.poolers.graclus import GraclusPooling as GraclusPooling
    from tgp.poolers.hosc import HOSCPooling as HOSCPooling
    from tgp.poolers.just_balance import JustBalancePooling as JustBalancePooling
    from tgp.poolers.kmis import KMISPooling as KMISPooling
    from tgp.poolers.lapool import LaPooling as LaPooling
    from tgp.poolers.maxcut import MaxCutPooling as MaxCutPooling
    from tgp.poolers.mincut import MinCutPooling as MinCutPooling
    from tgp.poolers.ndp import NDPPooling as NDPPooling
    from tgp.poolers.nmf import NMFPooling as NMFPooling
    from tgp.poolers.nopool import NoPool as NoPool
    from tgp.poolers.pan import PANPooling as PANPooling
    from tgp.poolers.sag import SAGPooling as SAGPooling
    from tgp.poolers.sep import SEPPooling as SEPPooling
    from tgp.poolers.topk import TopkPooling as TopkPooling

__all__ = [*pooler_classes, "get_pooler", "pooler_classes", "pooler_map", "register_pooler"]

lazy_package(__name__, {entry.attribute: entry.target for entry in POOLERS})
