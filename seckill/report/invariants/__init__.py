"""The checks, one function for each invariant. The docstring of a check states what must hold, in its first
sentence."""
