"""Shell: render HTML pages from Jinja templates, with autoescaping, one base template and one stylesheet.

A page belongs to the package that fills it: its template lies in that package's `templates` folder and extends
`base.html` from this package.
"""

from __future__ import annotations

import time
from functools import cache

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from seckill.report.timeline import clock_text


def render_template(package: str, name: str, **values: object) -> str:
    """Fill the template `name` of `package`."""
    return _environment(package).get_template(name).render(values)


@cache
def _environment(package: str) -> Environment:
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package), PackageLoader("seckill.report.html")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"number": number_text, "clock": clock_text, "time": time_text}
    return environment


def number_text(value: float, decimals: int = 0) -> str:
    """With thousands separators."""
    return f"{value:,.{decimals}f}"


def time_text(at_ms: int) -> str:
    """Date and time in UTC."""
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(at_ms / 1000))
