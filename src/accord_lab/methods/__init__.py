"""Denoising methods of the literature, to compare with: by name, from the entry point group `accord.methods`."""

ALL_METHODS = (  # those of accord among them, in the order of tables
    *("normal", "softmax", "bsl", "deca-softmax", "wbpr", "tce", "rce", "dcf", "udt", "pld", "eard"),
    *("ensemble", "deca", "deca-p"),
)
