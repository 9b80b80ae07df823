"""`accord compare`: grids of models, methods and options, equal tuning, and tables of what differs significantly."""
