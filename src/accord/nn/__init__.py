"""Layers with a leading run dimension, their optimiser, and the processes that train them together."""
