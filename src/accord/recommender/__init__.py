"""A trained run: recommendations, noise, and the folder that it is saved in."""
