"""Poolers' frame: outputs, the single forward, dense and level poolers. Names resolve on first access."""

from tgp._lazy import lazy_package

__all__ = lazy_package(
    __name__,
    {
        "PoolingOutput": "output",
        "SRCPooling": "base",
        "DenseSRCPooling": "dense",
        "Precoarsenable": "precoarsening",
        "BasePrecoarseningMixin": "precoarsening",
        "LevelPooling": "level",
        "DenseLevelPooling": "level",
        "LossTerm": "dense",
        "PoolCall": "base",
    },
)
