"""Poolers and methods with one deliberate mistake each, and the check that must find it."""

import random
from dataclasses import dataclass

import numpy as np
import torch

from tgp.engine.contraction import ContractOptions, contract
from tgp.engine.level_method import LevelEstimate, LevelMethod
from tgp.poolers import GraclusPooling, MinCutPooling, TopkPooling
from tgp.ragged import Assignment, BlockCSR
from tgp.ragged.offsets import offsets
from tgp.select import SelectOutput

# -- poolers -----------------------------------------------------------------------------------


class WrongFlatLoss(MinCutPooling):
    """The loss of flat mode is 7 times too large."""

    def compute_loss(self, *args, **kwargs):
        return super().compute_loss(*args, **kwargs)

    def compute_sparse_loss(self, *args, **kwargs):
        return {name: 7 * value for name, value in super().compute_sparse_loss(*args, **kwargs).items()}


class WrongNumbering(TopkPooling):
    """Supernodes are numbered from the last graph to the first."""

    def select(self, **kwargs):
        so = super().select(**kwargs)
        return SelectOutput(
            node_index=so.node_index,
            cluster_index=so.num_supernodes - 1 - so.cluster_index,
            num_nodes=so.num_nodes,
            num_supernodes=so.num_supernodes,
            weight=so.weight,
            batch=so.batch,
        )


class KeepsState(TopkPooling):
    """Every call adds a larger number to the features."""

    calls = 0

    def reduce(self, **kwargs):
        x, batch = super().reduce(**kwargs)
        self.calls += 1
        return x + 0.01 * self.calls, batch


class BatchRandomness(GraclusPooling):
    """Noise that depends on the size of the batch."""

    def reduce(self, **kwargs):
        x, batch = super().reduce(**kwargs)
        noise = torch.rand(x.shape, generator=torch.Generator().manual_seed(len(x)))
        return x + 0.1 * noise.to(x.dtype), batch


class MixesGraphs(TopkPooling):
    """Features are centred over the whole batch."""

    def reduce(self, **kwargs):
        x, batch = super().reduce(**kwargs)
        return x - x.mean(0), batch


class WrongLift(GraclusPooling):
    """Lifted features are twice too large."""

    def lift(self, **kwargs):
        return 2 * super().lift(**kwargs)


class IgnoresWeights(GraclusPooling):
    """Edge weights are dropped."""

    def forward(self, x=None, adj=None, edge_weight=None, so=None, batch=None, lifting=False, **kwargs):
        return super().forward(x, adj, None, so, batch, lifting, **kwargs)


class RandomTies(TopkPooling):
    """Ties are broken by a generator without a seed."""

    def select(self, **kwargs):
        noise = torch.tensor([random.random() for _ in range(len(kwargs["x"]))])
        kwargs["x"] = kwargs["x"] + noise[:, None].to(kwargs["x"].dtype)
        return super().select(**kwargs)


class _InvertedMask(SelectOutput):
    """Assignment whose mask marks empty supernodes as non-empty, and the others as empty."""

    @property
    def out_mask(self):
        return ~super().out_mask


class WrongMask(MinCutPooling):
    """Non-empty supernodes are marked as empty."""

    def select(self, **kwargs):
        so = super().select(**kwargs)
        so.__class__ = _InvertedMask
        return so


class PoolsPadding(MinCutPooling):
    """Padding counts as nodes."""

    def select(self, **kwargs):
        if kwargs.get("mask") is not None:
            kwargs["mask"] = torch.ones_like(kwargs["mask"])
        return super().select(**kwargs)


class ChangesInput(TopkPooling):
    """Features are normalised in place."""

    def reduce(self, **kwargs):
        with torch.no_grad():
            kwargs["x"].mul_(0.5)
        return super().reduce(**kwargs)


class LosesDouble(TopkPooling):
    """Pooled features are always single precision."""

    def reduce(self, **kwargs):
        x, batch = super().reduce(**kwargs)
        return x.float(), batch


class AcceptsWrongIds(TopkPooling):
    """Node ids out of range are replaced by the last node without an error."""

    def forward(
        self, x=None, adj=None, edge_weight=None, so=None, batch=None, attn=None, lifting=False, **kwargs
    ):
        if isinstance(adj, torch.Tensor) and isinstance(x, torch.Tensor) and adj.dtype is torch.long:
            adj = adj.clamp(0, max(len(x) - 1, 0))
        return super().forward(x, adj, edge_weight, so, batch, attn, lifting, **kwargs)


class NoGradient(MinCutPooling):
    """Pooled features are detached from the autograd graph."""

    def reduce(self, **kwargs):
        x, batch = super().reduce(**kwargs)
        return x.detach(), batch

    def connect(self, **kwargs):
        adj, weight = super().connect(**kwargs)
        return adj.detach(), None if weight is None else weight.detach()


class SkipsStage(TopkPooling):
    """Features are reduced without the reducer, so that its hooks do not run."""

    def reduce(self, x, so, batch, **kwargs):
        return torch.zeros(so.num_supernodes, x.size(1), dtype=x.dtype).index_add(
            0, so.cluster_index, x[so.node_index] * so.weight[:, None]
        ), batch[so.node_index] if batch is not None else None


class StaleCache(GraclusPooling):
    """The cache is keyed by the number of edges."""

    def select(self, **kwargs):
        if not self.cached:
            return super().select(**kwargs)
        key = kwargs["edge_index"].shape
        if getattr(self, "_key", None) != key:
            self._key, self._kept = key, super().select(**kwargs)
        return self._kept


class HalfSums(MinCutPooling):
    """A loss is summed in the precision of the features."""

    def compute_loss(self, *args, **kwargs):
        losses = super().compute_loss(*args, **kwargs)
        tensor = next(value for value in (*args, *kwargs.values()) if isinstance(value, torch.Tensor))
        count = torch.zeros((), dtype=torch.bfloat16)
        for _ in range(tensor.size(1)):
            count = count + 1
        exact = (
            tensor.size(1)
            if not torch.is_autocast_enabled("cpu") and tensor.dtype is torch.float32
            else count
        )
        return {**losses, "size_loss": torch.as_tensor(exact, dtype=torch.float32)}


class FixedLoss(MinCutPooling):
    """``forward`` computes the losses itself, so that an overridden ``compute_loss`` has no effect."""

    def forward(self, *args, **kwargs):
        out = super().forward(*args, **kwargs)
        if not isinstance(out, torch.Tensor):
            out.loss = {"cut_loss": out.x.sum(), "ortho_loss": out.x.mean()}
        return out


class DropsEdgeAttributes(GraclusPooling):
    """Attributes of edges are lost."""

    def connect(self, edge_attr=None, **kwargs):
        return *super().connect(**kwargs), None


class SwapsEdgeAttributes(MinCutPooling):
    """Attributes of edges belong to the edges of the other direction."""

    def forward(self, x=None, adj=None, edge_weight=None, **kwargs):
        out = super().forward(x, adj, edge_weight, **kwargs)
        if getattr(out, "edge_attr", None) is not None and out.edge_attr.dim() == 4:
            out.edge_attr = out.edge_attr.transpose(1, 2)
        return out


class ReservesAttributes(TopkPooling):
    """Two attributes have a meaning that is not documented."""

    def forward(self, *args, **kwargs):
        out = super().forward(*args, **kwargs)
        if hasattr(self, "layout") or isinstance(getattr(self, "plan", None), str):
            out.x = out.x + 1
        return out


POOLERS = {
    WrongFlatLoss: "modes_agree",
    WrongNumbering: "numbering",
    KeepsState: "repeat",
    BatchRandomness: "single",
    MixesGraphs: "single",
    WrongLift: "lift_values",
    IgnoresWeights: "weights_used",
    RandomTies: "repeat",
    WrongMask: "mask",
    PoolsPadding: "modes_agree",
    ChangesInput: "inputs_unchanged",
    LosesDouble: "double",
    AcceptsWrongIds: "refusals",
    NoGradient: "gradients",
    SkipsStage: "hooks",
    StaleCache: "cache_notices",
    HalfSums: "half_losses",
    FixedLoss: "override_loss",
    DropsEdgeAttributes: "edge_attr",
    SwapsEdgeAttributes: "edge_attr",
}
"""Check that must find the mistake of each pooler."""


# -- methods -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Params:
    """No parameters."""


def pairs(block, params, draw):
    """Merge nodes ``2i`` and ``2i + 1`` of every graph. This method has no mistake."""
    counts = np.diff(block.node_ptr)
    super_ptr = offsets((counts + 1) // 2)
    local = np.arange(block.num_nodes) - np.repeat(block.node_ptr[:-1], counts)
    cluster = local // 2 + np.repeat(super_ptr[:-1], counts)
    return Assignment("hard", super_ptr, cluster.astype(np.int32))


def merged(block, assignment, params):
    """Contract the clusters."""
    return contract(block, assignment, ContractOptions())


def leaks(block, assignment, params):
    """Weights are divided by the largest of the block."""
    coarse = merged(block, assignment, params)
    if coarse.weight is None or not len(coarse.weight):
        return coarse
    return BlockCSR(coarse.indptr, coarse.indices, coarse.weight / coarse.weight.max(), coarse.node_ptr)


def unseeded(block, params, draw):
    """Random weights of the assignment come from the global random number generator."""
    correct = pairs(block, params, draw)
    weight = np.random.random(block.num_nodes).astype(np.float32)  # noqa: NPY002
    return Assignment("hard", correct.super_ptr, correct.cluster, weight)


def positional(block, params, draw):
    """Random weights of the assignment depend on the position of a node in the block."""
    correct = pairs(block, params, draw)
    weight = ((np.arange(block.num_nodes) * 2654435761 + draw.seed) % 97 / 97).astype(np.float32)
    return Assignment("hard", correct.super_ptr, correct.cluster, weight)


def wrong_numbers(block, params, draw):
    """Supernodes of one graph are numbered from the end of the block."""
    correct = pairs(block, params, draw)
    cluster = (correct.num_supernodes - 1 - correct.cluster).astype(np.int32)
    return Assignment("hard", correct.super_ptr, cluster)


def no_weights(block, assignment, params):
    """Edge weights are dropped."""
    return merged(BlockCSR(block.indptr, block.indices, None, block.node_ptr), assignment, params)


def in_place(block, assignment, params):
    """Weights of the input are normalised in place."""
    if block.weight is not None and len(block.weight):
        block.weight.setflags(write=True)
        block.weight[:] = block.weight / block.weight.max()
    return merged(block, assignment, params)


def ignores_features(block, params, draw):
    """The method declares that it needs features, and does not read them."""
    return pairs(block, params, draw)


def no_empty_graph(block, params, draw):
    """A graph without nodes raises an error."""
    if (np.diff(block.node_ptr) == 0).any():
        raise IndexError("an empty graph")
    return pairs(block, params, draw)


_last = {}


def remembers(block, params, draw):
    """The weights of the assignment count the calls."""
    _last["calls"] = _last.get("calls", 0) + 1
    correct = pairs(block, params, draw)
    weight = np.full(block.num_nodes, _last["calls"], np.float32)
    return Assignment("hard", correct.super_ptr, correct.cluster, weight)


CORRECT = LevelMethod("pairs", Params, pairs, merged)
METHODS = {
    LevelMethod("leaks", Params, pairs, leaks): "blocks",
    LevelMethod("unseeded", Params, unseeded, merged): "seeds",
    LevelMethod("positional", Params, positional, merged): "blocks",
    LevelMethod("wrong_numbers", Params, wrong_numbers, merged): "sizes",
    LevelMethod("no_weights", Params, pairs, no_weights): "weights",
    LevelMethod("in_place", Params, pairs, in_place): "inputs_unchanged",
    LevelMethod("ignores_features", Params, ignores_features, merged, needs=("x",)): "needs",
    LevelMethod("no_empty_graph", Params, no_empty_graph, merged): "tiny",
    LevelMethod("remembers", Params, remembers, merged): "seeds",
    LevelMethod("undeclared", Params, pairs, merged, estimate=LevelEstimate(weighted=True)): "weights",
}
"""Check that must find the mistake of each method."""


def table() -> str:
    """Return the table of all mistakes and the checks that find them, for the documentation."""
    lines = ["| Mistake | Found by |", "|---|---|"]
    for cls, check in POOLERS.items():
        lines.append(f"| `{cls.__name__}`: {_sentence(cls.__doc__)} | `{check}` |")
    for method, check in METHODS.items():
        broken = method.assign if method.connect is merged else method.connect
        text = "Weights are declared for coarse graphs that have none." if broken is pairs else broken.__doc__
        lines.append(f"| method `{method.name}`: {_sentence(text)} | `{check}` |")
    return "\n".join(lines) + "\n"


def _sentence(text: str) -> str:
    return text.strip().rstrip(".")[0].lower() + text.strip().rstrip(".")[1:]
