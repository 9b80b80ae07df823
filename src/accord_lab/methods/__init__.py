"""Denoising methods of the literature, to compare with: by name, from the entry point group `accord.methods`."""

ALL_METHODS = (
    *("normal", "softmax", "bsl", "wbpr", "tce", "rce", "dcf", "udt", "pld", "eard", "ensemble", "deca", "deca-p"),
)  # those of accord among them, in the order of tables
