"""Training from a store through PyTorch Lightning: ``pip install pytorch-lightning``, part of the ``test`` extra."""

import logging
import warnings

import pytest
import torch
from torch.nn.functional import cross_entropy
from torch.utils.data import DistributedSampler, SequentialSampler

from tgp.data import PoolDataLoader, PooledDataset

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # its own, on import
    lightning = pytest.importorskip("pytorch_lightning", reason="PyTorch Lightning is not installed")

GRAPHS = 24


@pytest.fixture(scope="module")
def store(make_store, make_graphs):
    return make_store(make_graphs(GRAPHS, seed=3, rich=False), "graclus*2", units=2)


class Net(lightning.LightningModule):
    """Linear model that sums over the levels."""

    def __init__(self, dataset, **options):
        super().__init__()
        self.dataset, self.options = dataset, options
        self.linear = torch.nn.Linear(4, 3)
        self.seen = []

    def forward(self, batch):
        x = self.linear(batch.x)
        for level in batch.pooled_data:
            x = x.new_zeros(level.num_nodes, 3).index_add(0, level.so.cluster_index, x)
        return x.new_zeros(batch.num_graphs, 3).index_add(0, batch.pooled_data[-1].batch, x)

    def training_step(self, batch, index):
        self.seen.append(batch.num_graphs)
        return cross_entropy(self(batch), batch.y)

    def predict_step(self, batch, index):
        return batch.x.sum() + 0 * self(batch).sum()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), 0.1)

    def train_dataloader(self):
        return PoolDataLoader(self.dataset, batch_size=5, shuffle=True, seed=0, **self.options)


@pytest.fixture
def trainer(tmp_path):
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    return lightning.Trainer(
        max_epochs=2,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=tmp_path,
    )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("hook", [True, False])
def test_two_epochs(store, trainer, workers, hook):
    model = Net(PooledDataset(store), num_workers=workers)
    before = model.linear.weight.detach().clone()
    trainer.fit(model, None if hook else model.train_dataloader())
    assert model.seen == [5, 5, 5, 5, 4] * 2
    assert not torch.equal(model.linear.weight, before)


@pytest.mark.filterwarnings("ignore")
def test_predict_sees_every_graph_in_order(store, trainer):
    dataset = PooledDataset(store)
    found = trainer.predict(Net(dataset), PoolDataLoader(dataset, batch_size=5))
    expected = [batch.x.sum() for batch in PoolDataLoader(dataset, batch_size=5)]
    assert torch.equal(torch.stack(found), torch.stack(expected))


@pytest.mark.filterwarnings("ignore")
def test_an_injected_distributed_sampler_is_refused_with_a_hint(store):
    from pytorch_lightning.utilities.data import _update_dataloader

    # The loader shares an epoch among ranks itself (rank, world_size); a second way would lose its seed and budget.
    dataset = PooledDataset(store)
    loader = PoolDataLoader(dataset, batch_size=5, shuffle=True, seed=0)
    with pytest.raises(TypeError, match="use_distributed_sampler=False"):
        _update_dataloader(loader, DistributedSampler(dataset, 2, 0))


@pytest.mark.filterwarnings("ignore")
def test_a_loader_around_a_torch_sampler_takes_the_distributed_one(store):
    from pytorch_lightning.utilities.data import _update_dataloader

    dataset = PooledDataset(store)
    loader = PoolDataLoader(dataset, 5, sampler=SequentialSampler(dataset))
    shares = [
        _update_dataloader(loader, DistributedSampler(dataset, 2, rank, shuffle=False)) for rank in (0, 1)
    ]
    assert [batch.num_graphs for batch in shares[0]] == [5, 5, 2]
    found = torch.cat([batch.y for share in shares for batch in share])
    assert sorted(found.tolist()) == sorted(dataset.y.tolist())


@pytest.mark.filterwarnings("ignore")
def test_a_reinstantiated_loader_keeps_its_arguments(store, same):
    from pytorch_lightning.trainer.states import RunningStage
    from pytorch_lightning.utilities.data import _update_dataloader

    dataset = PooledDataset(store)
    loader = PoolDataLoader(dataset, 5, follow_batch=["y"], exclude_keys=["edge_weight"], num_workers=1)
    again = _update_dataloader(loader, SequentialSampler(dataset), RunningStage.PREDICTING)
    assert type(again) is PoolDataLoader
    assert again.num_workers == 1
    for left, right in zip(loader, again, strict=True):
        assert "y_batch" in right
        assert "edge_weight" not in right
        same(left, right)
