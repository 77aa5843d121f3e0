"""What a model attends to: maps, rollouts, alignments, and their pictures."""
