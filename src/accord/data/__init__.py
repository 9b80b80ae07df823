"""Interactions: reading, naming, splitting, simulating and checking them."""
