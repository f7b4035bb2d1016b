"""The invariants, grouped by what they watch. Pure functions of the evidence; the docstring is the contract."""
