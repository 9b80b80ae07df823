"""A plain torch module as a model: R copies, each its own run."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from accord.errors import InputError
from accord.models import plain
from helpers import make_model, random_csr

TRAIN = random_csr(6, 5, 0.5)


class Plain(nn.Module):
    def __init__(self, num_users, num_items, dim=3, dropout=0.0):
        super().__init__()
        self.user, self.item = nn.Embedding(num_users, dim), nn.Embedding(num_items, dim)
        self.out = nn.Sequential(nn.Dropout(dropout), nn.Linear(dim, 1))

    def forward(self, users, items):
        return self.out(self.user(users) * self.item(items)).squeeze(-1)


def test_every_run_is_the_module_with_its_own_weights():
    model = make_model(Plain, TRAIN, (1, 2), dim=4)
    users, items = torch.tensor([[0, 5, 2], [3, 3, 1]]), torch.tensor([[4, 0, 1], [2, 2, 3]])
    found = model(users, items)
    for run in range(2):
        alone = Plain(6, 5, dim=4)
        alone.load_state_dict({name.replace("/", "."): tensor[run] for name, tensor in model.state_dict().items()})
        torch.testing.assert_close(found[run], alone(users[run], items[run]))
    assert not torch.equal(*model.state_dict()["user/weight"]), "each run has its own start"


def test_the_callers_own_random_numbers_are_left_alone():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    make_model(Plain, TRAIN, (1,), dropout=0.5).train()(torch.zeros(1, 2, dtype=torch.long), torch.zeros(1, 2).long())
    assert torch.equal(torch.rand(3), expected)


def test_dropout_is_of_each_run_and_only_in_training():
    users, items = torch.arange(6).expand(2, -1), torch.zeros(2, 6, dtype=torch.long)
    stack, alone = make_model(Plain, TRAIN, (1, 2), dropout=0.5), make_model(Plain, TRAIN, (2,), dropout=0.5)
    first = stack.train()(users, items)
    assert torch.equal(first[1], alone.train()(users[:1], items[:1])[0]), "whatever its neighbours draw"
    assert not torch.equal(stack(users, items), first)
    assert torch.equal(stack.eval()(users, items), stack(users, items))


def test_all_items_are_scored_in_parts(monkeypatch):
    model = make_model(Plain, TRAIN, (1, 2)).eval()
    users = torch.tensor([5, 0, 3])
    whole = model.score_all(users)
    assert whole.shape == (2, 3, 5)
    monkeypatch.setattr(plain, "PAIRS_AT_ONCE", 5)  # one user
    torch.testing.assert_close(model.score_all(users), whole)
    pairs = users.repeat_interleave(5).expand(2, -1), torch.arange(5).repeat(3).expand(2, -1)
    torch.testing.assert_close(model(*pairs).view(2, 3, 5), whole)


class Wrong(nn.Module):
    def __init__(self, num_users, num_items):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, users, items):
        return self.bias.expand(len(users), 2)


@pytest.mark.parametrize(
    ("factory", "options", "sentence"),
    [
        (
            Plain,
            {"width": 3},
            r"Plain\(num_users, num_items, …\) cannot be made: .*unexpected keyword argument 'width'",
        ),
        (lambda users, items: [users, items], {}, "<lambda> made a list, not a torch.nn.Module"),
    ],
)
def test_what_is_no_module_is_one_sentence(factory, options, sentence):
    with pytest.raises(InputError, match=sentence):
        make_model(factory, TRAIN, **options)


def test_a_wrong_shape_is_one_sentence():
    model = make_model(Wrong, TRAIN)
    with pytest.raises(InputError, match=r"Wrong.forward gave shape \(3, 2\) for 3 pairs; it must give one logit"):
        model(torch.zeros(1, 3, dtype=torch.long), torch.zeros(1, 3, dtype=torch.long))


def test_an_instance_is_refused():
    with pytest.raises(InputError, match="give the class Plain, not an instance"):
        make_model(Plain(6, 5), TRAIN)
