"""Live: what of the invariants can be said while the sale is on, from counts alone.

A residual is how far two books are apart. What is under way just now explains some of it: up to the in-flight term it
may still come right by itself; beyond that it is wrong, whatever comes. The last word is the report's, at the end.
"""
