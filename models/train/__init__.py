"""The small tasks that make the shipped checkpoints: data, split, recipe, metric and model card of each."""
