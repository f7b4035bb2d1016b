"""The crowd: load from outside, and the outside world that the project meets.

Nothing of the product imports from here.
"""
