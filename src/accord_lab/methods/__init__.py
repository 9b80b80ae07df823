"""Denoising methods of the literature, to compare with: by name, from the entry point group `accord.methods`."""

from __future__ import annotations

# those of accord among them, in the order of tables
ALL_METHODS = tuple(
    ["normal", "softmax", "bsl", "wbpr", "tce", "rce", "dcf", "udt", "pld", "eard", "ensemble", "deca", "deca-p"]
)
