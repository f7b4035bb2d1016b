"""Guards of Locust's web page: it has no login, so it answers only requests that name this machine, and its
target cannot be changed.

Locust takes any option from the form that starts a test. The target and the evidence folder come from the command line
alone: whoever reaches the page must not aim the load at another host or write files elsewhere.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from flask import Flask, abort, request
from locust.env import Environment

from loadtest.locustrun import DEFAULT_HOST

LOOPBACK = "127.0.0.1"
LOCAL_NAMES = {LOOPBACK, "localhost", "::1"}


def protect(app: Flask | None, environment: Environment) -> None:
    options = environment.parsed_options
    assert app is not None and options is not None
    fixed = {"host": environment.host or DEFAULT_HOST, "evidence": options.evidence}
    names = {*LOCAL_NAMES, options.web_host}

    @app.before_request
    def refuse() -> None:
        if urlsplit(f"//{request.host}").hostname not in names:
            abort(403, f"Locust's page is for this machine; the request named {request.host}")
        if request.method == "GET":
            return
        origin = request.headers.get("Origin")
        if origin is not None and urlsplit(origin).netloc != request.host:
            abort(403, f"another site's page ({origin}) may not control Locust")
        for name, value in fixed.items():
            if request.form.get(name, value) != value:
                abort(400, f"{name} is {value}; start Locust with --{name} to change it")
