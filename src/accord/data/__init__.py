"""Interactions: reading, splitting, simulating, sampling and checking them."""
