"""labs — break, observe, fix, prove: one command shows one mistake of message-driven systems, and what prevents it.

In:    the number of a lab.
Out:   the damage of a broken variant, the same run with the real code, a verdict, a picture, the lines that matter.
Used by: cli.    Uses: the services, stack, lab, the sandbox in loadtest.

Each variant runs in a process of its own (child.py), on a database of its own. The broken variants are composed there:
they replace one function of the real code, or are a few lines of what one would write first. The product has no
setting that does this. `catalogue*.py` says what a lab is, and `steps/NAME.py` what it does.
"""
