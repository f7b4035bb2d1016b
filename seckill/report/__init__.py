"""report: the consistency report, which compares what a run left behind. It imports no service and trusts none.

In:    Postgres (one snapshot), topics (up to a recorded cut), Redis (one script), the logs of crowd, provider and
sinks. Out:   a verdict on each invariant of docs/invariants.md, and the timeline of an example where one is violated.
Next:  sources/ collect the evidence, invariants/ judge it, terminal, html/ and junit show it. selftest/ checks the
report itself, live/ compares counts while a sale runs.

A check that saw nothing proves nothing: if a source is missing, cut off or not drained, the verdict is UNKNOWN.
"""
