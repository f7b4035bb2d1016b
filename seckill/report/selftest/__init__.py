"""The selftest: corrupt the evidence of a passing run in one way at a time; the invariant in question must notice."""
