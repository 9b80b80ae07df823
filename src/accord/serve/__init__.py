"""A run folder over HTTP: an API, a web page, and what protects both."""
