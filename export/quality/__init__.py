"""How much of a model is left in an artefact: measured, held to budgets, compared over precisions."""
