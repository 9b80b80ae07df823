"""Models of the literature, to compare with: by name, from the entry point group `accord.models`."""
