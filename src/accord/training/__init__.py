"""The training loop, what surrounds it and what it leaves behind. It knows no model and no method."""
