"""The report as one HTML file that opens from disk without a network and prints well.

In:    evidence and judgements.
Out:   a page with charts (SVG), tables and timelines.
Also:  `rendering`, `charts` and `templates/base.html` serve the statistics page, the fault page and the benchmarks, so
       all of them share one stylesheet and one chart stack (Altair and vl-convert).
"""
