"""Layers with a leading run dimension, and their optimiser."""
