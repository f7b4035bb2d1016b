"""consistency — do the books of a run agree? Read from outside: it imports no service and believes none of them.

In:    Postgres (one snapshot), topics (to a recorded cut), Redis (one script), logs of the crowd and the outside world.
Out:   a verdict for each invariant of docs/invariants.md, with the whole timeline of an example where one is broken.
Next:  sources/ collect → evidence → invariants/ judge → show.

A check that has seen nothing has proved nothing: what is missing, cut off or not drained is UNKNOWN, never PASS.
"""
