"""How the pages look: quiet, dense, light and dark by the reader's setting, fit to be printed."""

from __future__ import annotations

STYLE = """
:root{color-scheme:light dark;--fg:#1b1b1b;--bg:#fff;--dim:#666;--line:#ddd;--a:#0b62a8;--b:#b35900;--c:#2d7a3a;
--bad:#b3261e}
@media (prefers-color-scheme:dark){:root{--fg:#e8e8e8;--bg:#161616;--dim:#a0a0a0;--line:#3a3a3a;--a:#6db3f2;--b:#f0a35e;
--c:#7cc98a;--bad:#ff8a80}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--fg);background:var(--bg);max-width:1080px;
margin:32px auto;padding:0 16px}
h1{font-size:22px}h2{font-size:22px;margin-top:40px}table{border-collapse:collapse;width:100%;
font-variant-numeric:tabular-nums}
td,th{text-align:left;padding:4px 8px;border-bottom:1px solid var(--line);vertical-align:top}td.n,th.n{text-align:right}
.FAIL{color:var(--bad);font-weight:600}.UNKNOWN{color:var(--b);font-weight:600}.PASS{color:var(--c)}.NOT{color:var(--dim)}
.dim,.unit{color:var(--dim);fill:var(--dim)}svg{max-width:100%;height:auto}
code{font-size:13px;overflow-wrap:anywhere}td.w{width:42%}td.f{width:26%}details{margin:8px 0}summary{cursor:pointer}
@media print{details{display:block}}
"""
