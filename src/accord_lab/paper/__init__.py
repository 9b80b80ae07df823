"""The paper's tables and figures as code. `reproduce.reproduce` runs them; each file holds one kind of them."""
