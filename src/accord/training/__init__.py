"""The training loop, which knows no model and no method, and what plans, feeds, stops and saves it."""
