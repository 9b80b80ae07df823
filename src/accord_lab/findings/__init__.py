"""The generated tables and claims of the README pages in `docs/reproduction`: `pages.filled` writes them."""
