"""Denoising methods of the literature, to compare with: by name, from the entry point group `accord.methods`."""

from __future__ import annotations

from accord.methods import METHODS

OF_LITERATURE = ("tce", "rce", "dcf", "udt", "pld", "eard")
FIRST = ("normal", "softmax", "bsl", "wbpr")
ALL_METHODS = (*FIRST, *OF_LITERATURE, *(name for name in METHODS if name not in FIRST))  # in the order of tables
