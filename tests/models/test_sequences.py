"""What came after what, counted one by one."""

import numpy as np
import pytest
import torch

from accord.data.csr import Csr
from accord.errors import InputError
from accord.models import MODELS, sequences
from accord.models.base import Setup
from accord.models.sequences import halving, in_order_of_time, what_followed
from accord.protocol import CORRECTED
from helpers import histories, random_csr, timed_csr

LOG = timed_csr(12, 9, 0.4)


@pytest.mark.parametrize("most_dense", [0, 100])
def test_pairs_count_by_their_distance_their_weights_and_their_end(monkeypatch, most_dense):
    monkeypatch.setattr(sequences, "MOST_DENSE", most_dense)
    later, ends = np.array([1.0, 0.5, 0.2]), np.array([0.0, 0.6, 1.0])
    weight = np.random.default_rng(3).random(len(LOG.items))
    expected = np.zeros((9, 9))
    for own in histories(LOG):
        for a, one in enumerate(own):
            for distance, other in enumerate(own[a + 1 : a + 4]):
                end = ends[min(len(own) - 1 - (a + 1 + distance), 2)]
                expected[LOG.items[one], LOG.items[other]] += later[distance] * weight[one] * weight[other] * end
    found = what_followed(LOG, later, weight, ends)
    found = found if most_dense else found.toarray()
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_interactions_of_one_moment_are_in_no_order_of_their_items():
    train = random_csr(200, 30, 0.5)
    train.columns["time"] = np.zeros(len(train.items))
    counts = what_followed(train, np.ones(1))
    rising = np.triu(counts).sum() / counts.sum()
    assert 0.45 < rising < 0.55
    assert np.array_equal(in_order_of_time(train), in_order_of_time(train))


def test_what_counts_half_every_so_often_ends_where_it_is_faint():
    assert halving(1.0)[:3].tolist() == [1, 0.5, 0.25]
    assert 0.01 < halving(3.0)[-1] < 0.02


@pytest.mark.parametrize("name", ["slist", "sparse-slist", "next-knn", "sasrec"])
def test_without_times_there_is_no_order(name):
    with pytest.raises(InputError, match=f"model {name} learns from the order of each user's interactions"):
        MODELS[name](MODELS[name].Config(), Setup(random_csr(4, 5, 0.5), (1,), CORRECTED))


@pytest.mark.parametrize(("users", "times"), [([0, 0, 1, 1], [5, 5, 5, 5]), ([0, 1, 2, 3], [1, 2, 3, 4])])
@pytest.mark.parametrize("name", ["slist", "sparse-slist", "next-knn", "sasrec"])
def test_a_log_in_which_nothing_follows_anything_is_refused(name, users, times):
    log = Csr.of(np.array(users), np.array([0, 1, 2, 0]), 4, 3, columns={"time": np.array(times, dtype=float)})
    with pytest.raises(InputError, match="no user has interactions at two times"):
        MODELS[name](MODELS[name].Config(), Setup(log, (1,), CORRECTED)).score_all(torch.tensor([0]))
