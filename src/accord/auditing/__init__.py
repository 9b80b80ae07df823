"""The audit of a log: its health, its probable noise, and whether denoising helps. `accord.audit` runs it."""
