"""What a user can cause, said in one sentence that names the mend."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class InputError(ValueError):
    """Bad input. The message is one sentence for the person who gave it; the command line exits with 2."""


def unknown(kind: str, name: str, known: Iterable[str]) -> InputError:
    """An unknown name, with the nearest known one suggested."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f"did you mean '{near[0]}'?" if near else f"known: {', '.join(names)}."
    return InputError(f"unknown {kind} '{name}'; {hint}")
