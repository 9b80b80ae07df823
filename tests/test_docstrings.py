"""Every public name says what it is, with an example that is true."""

from __future__ import annotations

import doctest
import inspect
import warnings

import pytest

import accord
from audit_logs import limit_verdict

PUBLIC = [name for name in accord.__all__ if inspect.isclass(getattr(accord, name)) or callable(getattr(accord, name))]


def test_all_but_constants_are_classes_and_functions():
    assert set(accord.__all__) - set(PUBLIC) == {"CORRECTED", "PUBLISHED", "__version__"}


@pytest.mark.parametrize("name", PUBLIC)
def test_the_example_of_a_public_name_is_true(name, monkeypatch):
    if name == "deterministic":  # of the whole process
        monkeypatch.setattr("torch.use_deterministic_algorithms", lambda _: None)
    limit_verdict(monkeypatch, epochs=1)
    thing = getattr(accord, name)
    (found,) = doctest.DocTestFinder(recurse=False).find(thing, name, globs={"accord": accord})
    assert found.examples, f"{name} has no example"
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        said: list[str] = []
        runner.run(found, out=said.append)
    assert not said, "".join(said)
