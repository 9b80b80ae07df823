"""The sentences about the results in `docs/reproduction`, made from the raw results: `pages.filled` writes them."""
