"""SASRec: what a state may know, and that order is learned."""

import pyarrow as pa
import pytest
import torch

from accord import fit
from accord.data.interactions import Interactions
from helpers import histories, make_model, spread, timed_csr, walk

LOG = timed_csr(9, 14, 0.6)


@torch.no_grad()
@pytest.mark.parametrize("scores", ["product", "cosine"])
def test_a_pair_is_predicted_from_what_came_before_it(scores):
    model = make_model("sasrec", LOG, (3, 5), dim=6, length=50, scores=scores)
    spread(model, std=0.3)
    model.eval()
    users, items = (torch.from_numpy(part).expand(2, -1) for part in (LOG.users, LOG.items))
    states, vectors = model.contexts(users, items)
    for own in histories(LOG):
        for number, pair in enumerate(own):
            past = torch.from_numpy(LOG.items[own[:number]])
            expected = (states[:, pair, None] @ vectors.mT).squeeze(1)
            torch.testing.assert_close(model.fold_in(past), expected, rtol=1e-4, atol=1e-5)
        users = torch.tensor([LOG.users[own[0]]])
        all_of_it = torch.from_numpy(LOG.items[own])
        torch.testing.assert_close(model.score_all(users)[:, 0], model.fold_in(all_of_it), rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_windows_show_the_item_before_and_nothing_later():
    """In training windows begin anywhere: a state follows the item before, and not the pair's own or any later item."""
    model = make_model("sasrec", LOG, (3,), dim=6, length=3, dropout=0.0)
    spread(model, std=0.3)
    own = max(histories(LOG), key=len)
    user, at = int(LOG.users[own[0]]), len(own) // 2
    pair = torch.tensor([[user]]), torch.tensor([[LOG.items[own[at]]]])
    before = [model.contexts(*pair)[0] for _ in range(20)]
    assert len({tuple(state.flatten().tolist()) for state in before}) > 1, "where windows begin is drawn"
    model.cuts.streams = make_model("sasrec", LOG, (3,)).cuts.streams
    start = int(LOG.ptr[user])
    model.sequence[start + at : start + len(own)] = 0
    for state in before:
        torch.testing.assert_close(model.contexts(*pair)[0], state, rtol=0, atol=0)
    model.sequence[start + at - 1] = (model.sequence[start + at - 1] + 1) % 14
    model.cuts.streams = make_model("sasrec", LOG, (3,)).cuts.streams
    assert not torch.equal(model.contexts(*pair)[0], before[0])


@torch.no_grad()
def test_of_a_long_history_the_last_items_count():
    model = make_model("sasrec", LOG, (3,), dim=6, length=3).eval()
    spread(model, std=0.3)
    history = torch.tensor([1, 4, 9, 2, 7])
    torch.testing.assert_close(model.fold_in(history), model.fold_in(history[-3:]))
    assert not torch.equal(model.fold_in(history), model.fold_in(history[:3]))


def test_order_is_learned_used_and_kept_up(tmp_path):
    """The next items of a walk, from a history alone, after an update, and with reasons."""
    data = walk()
    options = {"train.lr": 0.02, "train.l2": 0.0, "model.dim": 16, "model.dropout": 0.0, "method.temperature": 1.0}
    made = fit(data, "sasrec", "softmax", options=options, epochs=25, device="cpu", out=tmp_path / "run")
    assert made.metrics["mean"]["ndcg@20"] > 1.2 * fit(data, "ease", device="cpu").metrics["mean"]["ndcg@20"]
    assert "before_validation" in made.metrics, "the test is judged with the validation as history"
    best = made.recommend(["new"], k=4, history={"new": [3, 4, 6, 7]})["item"].to_pylist()
    assert {8, 9} <= set(best), "what comes after the last item"
    assert made.recommend(["new"], k=4, history={"new": [7, 6, 4, 3]})["item"].to_pylist() != best
    assert made.explain(["new"], [8], history={"new": [3, 4, 6, 7]}).num_rows
    new = Interactions.of(pa.array([0, 999]), pa.array([5, 5]), time=pa.array([100, 100]))
    grown = made.update(new)
    assert torch.equal(grown.method.state_dict()["target.item.weight"], made.method.state_dict()["target.item.weight"])
    found, folded = (grown.recommend([999], k=3, history=past)["item"].to_pylist() for past in (None, {999: [5]}))
    assert found == folded
