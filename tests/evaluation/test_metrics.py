"""Metrics against ir_measures on rankings with ties, and by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from accord.evaluation.evaluate import Evaluation, Relevant, evaluate
from accord.evaluation.metrics import METRICS, at_each_k
from accord.evaluation.ranking import Ranker, tie_priority
from accord.protocol import CORRECTED, PUBLISHED
from helpers import CPU, dataset

USERS, ITEMS, RUNS = 40, 25, 2
KS = [1, 3, 5, 20, 60]  # the last is more than there are items
ORACLES = {"recall": "R", "ndcg": "nDCG", "precision": "P", "mrr": "RR", "hit_rate": "Success"}


def random_case(seed, levels):
    """Scores with few levels, so nearly every place is tied, and random train, valid and test pairs."""
    rng = np.random.default_rng(seed)
    kind = rng.choice(4, size=(USERS, ITEMS), p=[0.6, 0.2, 0.05, 0.15])
    kind[3] = np.where(kind[3] == 1, 0, kind[3])  # a user with no history
    train, valid, test = ([(int(u), int(i)) for u, i in np.argwhere(kind == part)] for part in (1, 2, 3))
    scores = rng.integers(0, levels, size=(RUNS, USERS, ITEMS)) / levels - 0.5
    return dataset(USERS, ITEMS, train, valid, test), scores.astype(np.float32)


def evaluate_scores(data, scores, protocol) -> tuple[Evaluation, Relevant]:
    relevant = Relevant.of_test(data, protocol)
    tensor = torch.from_numpy(scores)
    ranker = Ranker(
        lambda users: tensor[:, users].clone(), len(scores), relevant.seen, data.csr(data.train), protocol, CPU
    )
    return evaluate(ranker, relevant, KS), relevant


def rankings(data, scores, protocol, run):
    """Every user's unseen items in order, by a full sort: the best score first, ties by the protocol's rule."""
    popularity = data.csr(data.train).popularity()
    priority = tie_priority(popularity, protocol.ties).numpy()
    seen = {*data.csr(data.train).keys.tolist(), *data.csr(data.valid).keys.tolist()}
    cold = data.csr(data.train).counts == 0
    for user in range(USERS):
        row = popularity if cold[user] and protocol.cold_users == "popularity" else scores[run, user]
        order = np.lexsort((priority, -row.astype(np.float64)))
        yield user, [int(item) for item in order if user * ITEMS + item not in seen]


@pytest.mark.parametrize("protocol", [PUBLISHED, CORRECTED], ids=["published", "corrected"])
@pytest.mark.parametrize("levels", [1, 3, 1000])
@pytest.mark.parametrize("seed", [0, 1])
def test_metrics_equal_ir_measures(protocol, levels, seed):
    ir_measures = pytest.importorskip("ir_measures", reason="trec_eval has wheels for x86_64 alone")
    data, scores = random_case(seed, levels)
    found, relevant = evaluate_scores(data, scores, protocol)
    assert len(found.users) > USERS // 2
    qrels = {str(user): {} for user in relevant.users}
    for user, item in zip(relevant.pairs.users, relevant.pairs.items, strict=True):
        qrels[str(user)][f"i{item}"] = 1
    oracles = {name: getattr(ir_measures, oracle) for name, oracle in ORACLES.items()}
    wanted = [oracle @ k for oracle in oracles.values() for k in KS]
    names = {str(oracle @ k): f"{name}@{k}" for name, oracle in oracles.items() for k in KS}
    for run in range(RUNS):
        lists = {
            str(user): {f"i{item}": float(ITEMS - place) for place, item in enumerate(items)}
            for user, items in rankings(data, scores, protocol, run)
            if str(user) in qrels
        }
        compared = 0
        for value in ir_measures.iter_calc(wanted, qrels, lists):
            place = int(np.flatnonzero(found.users == int(value.query_id))[0])
            ours = found.per_user[names[str(value.measure)]][run, place]
            assert ours == pytest.approx(value.value, abs=1e-6), (value, run)
            compared += 1
        assert compared == len(found.users) * len(wanted)


def test_by_hand():
    hits = torch.tensor([[False, True, False, True], [True, False, False, False], [False] * 4])
    relevant = torch.tensor([3, 1, 2])
    found = {name: metric(hits, relevant).tolist() for name, metric in METRICS.items()}
    assert found["recall"] == pytest.approx([2 / 3, 1, 0])
    assert found["precision"] == pytest.approx([0.5, 0.25, 0])
    assert found["mrr"] == pytest.approx([0.5, 1, 0])
    assert found["hit_rate"] == [1, 1, 0]
    third = 1 / np.log2(3)
    assert found["ndcg"] == pytest.approx([(third + 1 / np.log2(5)) / (1 + third + 0.5), 1, 0])


def test_ideal_list_is_no_longer_than_k():
    """With more relevant items than places, a full list of hits is perfect."""
    found = at_each_k(torch.ones(1, 3, dtype=torch.bool), torch.tensor([10]), [1, 3])
    assert found["ndcg@1"].item() == found["ndcg@3"].item() == 1
    assert found["recall@3"].item() == pytest.approx(0.3)


def test_each_k_looks_at_its_own_places():
    found = at_each_k(torch.tensor([[[False, False, True]]]), torch.tensor([1]), [2, 3])
    assert found["recall@2"].tolist() == [[0]]
    assert found["recall@3"].tolist() == [[1]]
    assert found["mrr@3"].item() == pytest.approx(1 / 3)
    assert set(found) == {f"{name}@{k}" for name in METRICS for k in (2, 3)}


@pytest.mark.parametrize(("rule", "relevant", "recall"), [("keep", 3, 1 / 3), ("merge", 2, 1 / 2)])
def test_duplicate_test_pairs(rule, relevant, recall):
    """A pair that is in the test twice is hit once; kept, it counts twice in what could be hit."""
    data = dataset(2, 4, train=[(0, 0), (1, 0)], test=[(0, 1), (0, 1), (0, 2)])
    scores = np.array([[[0, 3, 1, 2], [0, 0, 0, 0]]], dtype=np.float32)
    protocol = CORRECTED.model_copy(update={"duplicate_test": rule})
    found, rules = evaluate_scores(data, scores, protocol)
    assert rules.counts.tolist() == [relevant]
    assert found.per_user["recall@1"].tolist() == [[pytest.approx(recall)]]
    assert found.per_user["ndcg@3"][0, 0] == pytest.approx(
        (1 + 0.5) / sum(1 / np.log2(place + 1) for place in range(1, relevant + 1))
    )


def test_runs_and_users_may_both_lead():
    """hits [R, B, K], of which every list is measured by itself, exactly in float64, where the hits are."""
    hits = torch.tensor([[[1, 0, 0], [0, 0, 1]], [[0, 1, 1], [0, 0, 0]]]).bool()
    relevant = torch.tensor([[1.0, 2.0], [2.0, 4.0]], dtype=torch.float64)
    third, discount = 1 / 3, 1 / np.log2([2, 3, 4])
    expected = {
        "recall": [[1, 0.5], [1, 0]],
        "precision": [[third, third], [2 * third, 0]],
        "hit_rate": [[1, 1], [1, 0]],
        "mrr": [[1, third], [0.5, 0]],
        "ndcg": [[1, discount[2] / discount[:2].sum()], [discount[1:].sum() / discount[:2].sum(), 0]],
    }
    for name, metric in METRICS.items():
        np.testing.assert_allclose(metric(hits, relevant).numpy(), expected[name], rtol=1e-15, err_msg=name)
        assert metric(hits.to("meta"), relevant.to("meta")).device.type == "meta"
