"""Every model and method held to the contracts.

Those that the package registers are here by themselves; another one is one line in `ALL_MODELS` or `ALL_METHODS`.
"""

from __future__ import annotations

import textwrap

import pytest

from accord.config import with_declared
from accord.errors import InputError
from accord.fitting import fit
from accord.methods import METHODS
from accord.models import MODELS
from accord.models.consensus import Consensus
from accord.recommender.recommender import Recommender
from contracts import Biased, MethodContract, ModelContract, Smoothed, TwoTower
from helpers import small_data

EVERY_MODEL, EVERY_METHOD = with_declared("model", MODELS), with_declared("method", METHODS)
ALONE = [name for name, model in EVERY_MODEL.items() if model is not Consensus]  # which has tests of its own
ALL_MODELS = [*ALONE, TwoTower, Biased]
LEARNED = [*(name for name in ALONE if not EVERY_MODEL[name].solved), TwoTower, Biased]
ALL_METHODS = [*EVERY_METHOD, Smoothed]


def label(spec):
    return spec if isinstance(spec, str) else spec.__name__


@pytest.mark.parametrize("model", ALL_MODELS, ids=label)
class TestModels(ModelContract):
    pass


@pytest.mark.parametrize("model", LEARNED, ids=label)
@pytest.mark.parametrize("method", ALL_METHODS, ids=label)
class TestMethods(MethodContract):
    pass


def test_every_registered_name_is_its_own():
    assert all(model.name == name for name, model in EVERY_MODEL.items() if name != "auto")  # of a consensus to come
    assert all(method.name == name for name, method in EVERY_METHOD.items())


@pytest.mark.parametrize("kind", [*EVERY_MODEL.values(), *EVERY_METHOD.values()], ids=lambda kind: kind.name)
def test_every_option_is_described(kind):
    assert kind.summary
    assert all(field.description for field in kind.Config.model_fields.values())


MODEL_FILE = """
import torch
from torch import nn

class Cosine(nn.Module):
    def __init__(self, num_users, num_items, dim=4):
        super().__init__()
        self.user, self.item = nn.Embedding(num_users, dim), nn.Embedding(num_items, dim)

    def forward(self, users, items):
        return 3 * torch.cosine_similarity(self.user(users), self.item(items), dim=-1)
"""

METHOD_FILE = """
from accord.methods.base import Method, cross_entropy

class Focal(Method):
    name = "focal"
    summary = "hard pairs weigh more"

    def loss(self, batch):
        losses = cross_entropy(self.target(batch.users, batch.items), batch)
        return batch.mean((1 - (-losses).exp()) * losses)
"""


def test_a_model_and_a_method_are_one_file_each(tmp_path, monkeypatch):
    """By dotted path, trained together, saved, and loaded only where imports are allowed."""
    (tmp_path / "one_file_model.py").write_text(textwrap.dedent(MODEL_FILE))
    (tmp_path / "one_file_method.py").write_text(textwrap.dedent(METHOD_FILE))
    monkeypatch.syspath_prepend(tmp_path)
    recommender = fit(
        small_data(),
        "one_file_model:Cosine",
        "one_file_method:Focal",
        seeds=2,
        epochs=2,
        device="cpu",
        options={"train.batch_size": 128, "model.dim": 3},
        out=tmp_path / "run",
    )
    assert recommender.method.state_dict()["target.user/weight"].shape == (2, 60, 3)
    with pytest.raises(InputError, match="allow"):
        Recommender.load(tmp_path / "run")
    loaded = Recommender.load(tmp_path / "run", allow_imports=True)
    assert loaded.recommend(k=3).equals(recommender.recommend(k=3))
