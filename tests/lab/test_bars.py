"""A fixed split: what is held out of the training pairs to choose by."""

from __future__ import annotations

from accord_lab import bars
from logs import fixed_split


def test_a_tenth_of_every_users_training_pairs_is_chosen_by(tmp_path):
    data = bars.read(fixed_split(tmp_path / "gowalla"))
    assert (data.csr(data.train).counts == 18).all()
    assert (data.csr(data.valid).counts == 2).all()
    assert (data.csr(data.test).counts == 4).all()
    both = data.csr(data.before_test(data.valid).train)
    assert len(both.items) == 60 * 20
    assert not both.contains(data.csr(data.test).users, data.csr(data.test).items).any()
