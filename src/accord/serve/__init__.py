"""A run folder over HTTP: an API, a page to look at it, and what keeps both standing."""
