"""The default: families of models are tried within a budget, and the best of each vote. What is chosen is a recipe."""
