"""steps — what each lab does: `run(step, variant)` breaks or proves, and returns what it counted."""
