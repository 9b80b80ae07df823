"""Data with noise that says so: the built-in dataset."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from accord.data.csr import IntArray
from accord.data.interactions import Dataset, IdMap, Interactions
from accord.data.split import split
from accord.errors import InputError

MAX_ROUNDS = 500  # of rejection; a draw that needs more has hardly any free pair left
FACTORS = 6

BoolArray = npt.NDArray[np.bool_]
FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Simulation:
    """A dataset and the truth behind it; rows of `preference` are the rows of `dataset.users` and `dataset.items`."""

    dataset: Dataset
    preference: BoolArray  # [users, items]: whether the user really likes the item, seen or not

    @property
    def is_real(self) -> BoolArray:
        """For each train interaction, whether it is a real preference."""
        real: BoolArray = self.dataset.train.column("value") == 1
        return real


def simulate(
    users: int = 1000,
    items: int = 600,
    interactions: int = 40_000,
    seed: int = 0,
    noise: float = 0.27,
    accidental: float = 0.4,
    liked: float = 0.18,
    name: str = "demo",
) -> Simulation:
    """Users click what they like among what they are exposed to, and some of what they do not like.

    `liked` is the share of items a user really likes, by latent factors and the item's quality. Exposure is driven by
    popularity, so most liked items stay unseen (noisy negatives: the user is unaware of them). Of the observed
    interactions a share `noise` is not liked: `accidental` of it uniform, the rest on popular items.
    `value` is 1 for a real preference and 0 for noise; test and `valid_clean` hold real ones only.

    >>> made = accord.simulate(users=100, items=50, interactions=1_000, noise=0.2)
    >>> made.dataset.train
    Interactions(800 rows of user, item, value)
    """
    if users < 2 or items < 2 or not (0 <= noise < 1 and 0 <= accidental <= 1 and 0 < liked < 1):
        raise InputError(
            "simulate needs at least two users and items, and shares (noise, accidental, liked) within 0 and 1."
        )
    num_noise = round(interactions * noise)
    num_real = interactions - num_noise
    if num_real > 0.9 * liked * users * items or num_noise > 0.9 * (1 - liked) * users * items:
        raise InputError(
            f"{interactions} interactions are too many for {users} users and {items} items; ask for fewer."
        )
    rng = np.random.Generator(np.random.PCG64(seed))
    quality = rng.standard_normal(items)
    tastes, traits = rng.standard_normal((users, FACTORS)), rng.standard_normal((items, FACTORS))
    affinity = tastes @ traits.T / np.sqrt(FACTORS) + 0.2 * quality + 0.15 * rng.standard_normal((users, items))
    cut = np.partition(affinity, -round(liked * items), axis=1)[:, -round(liked * items)]
    preference = affinity >= cut[:, None]

    # what is shown often is only partly what is good
    exposure = np.exp(0.3 * quality + 0.6 * rng.standard_normal(items))
    activity = rng.gamma(3.0, size=users) + 0.5
    seen = _exposed(preference, activity, exposure, num_real, rng)
    blocked = np.flatnonzero(preference)  # noise is what is not liked, and drawn once
    num_accidental = round(num_noise * accidental)
    popular = draw_pairs(blocked, activity, exposure, num_noise - num_accidental, rng)
    stray = draw_pairs(np.union1d(blocked, popular), activity, np.ones(items), num_accidental, rng)

    keys = np.concatenate([seen, popular, stray])
    value = np.repeat([1.0, 0.0], [num_real, num_noise])
    user_ids, item_ids = _names("u", users), _names("i", items)
    observed = Interactions.of(
        user_ids.take(pa.array(keys // items)), item_ids.take(pa.array(keys % items)), value=value
    )
    dataset = split(observed, "random", clean="value>=1", seed=seed, name=name)
    # every user and item has its row, those never observed too, so that rows are those of `preference`
    return Simulation(replace(dataset, users=IdMap(user_ids), items=IdMap(item_ids)), preference)


def _names(letter: str, count: int) -> pa.Array:
    width = max(4, len(str(count)))
    return pa.array([f"{letter}{number:0{width}}" for number in range(1, count + 1)])


def _exposed(
    preference: BoolArray, activity: FloatArray, exposure: FloatArray, count: int, rng: np.random.Generator
) -> IntArray:
    """The `count` liked pairs that were shown: without replacement, in proportion to activity times exposure."""
    keys = np.flatnonzero(preference)
    weight = np.outer(activity, exposure).ravel()[keys]
    arrival = rng.exponential(size=len(keys)) / weight  # the first arrivals of a race are such a sample
    return np.sort(keys[np.argsort(arrival, kind="stable")[:count]])


def draw_pairs(
    blocked: IntArray, user_weight: FloatArray, item_weight: FloatArray, count: int, rng: np.random.Generator
) -> IntArray:
    """`count` different pairs (user * items + item), none of them blocked, drawn by user weight times item weight."""
    items = len(item_weight)
    user_edges, item_edges = np.cumsum(user_weight), np.cumsum(item_weight)
    blocked = np.sort(blocked)
    drawn = np.zeros(0, dtype=np.int64)
    for _ in range(MAX_ROUNDS):
        missing = count - len(drawn)
        if missing == 0:
            return drawn
        chance = rng.random((2, 2 * missing + 16))
        user = np.searchsorted(user_edges, chance[0] * user_edges[-1], side="right")
        item = np.searchsorted(item_edges, chance[1] * item_edges[-1], side="right")
        keys = np.minimum(user, len(user_weight) - 1) * items + np.minimum(item, items - 1)
        keys = keys[~np.isin(keys, blocked)]
        every = np.concatenate([drawn, keys])
        first = np.sort(np.unique(every, return_index=True)[1])  # in the order they were drawn
        drawn = every[first][:count]
    raise InputError(f"no room for {count} noise interactions: hardly any pair is free; ask for a lower rate.")
