"""Protection of Locust's web page, which has no login: it answers only requests that name this machine as their host.

Locust accepts any option from the form that starts a test. We take the target and the evidence folder only from the
command line, so that a visitor of the page can neither aim the load at another host nor write files elsewhere.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from flask import Flask, abort, request
from locust.env import Environment

from loadtest.locust_page import DEFAULT_HOST

LOOPBACK = "127.0.0.1"
LOCAL_NAMES = {LOOPBACK, "localhost", "::1"}


def protect(app: Flask | None, environment: Environment) -> None:
    options = environment.parsed_options
    assert app is not None and options is not None
    fixed = {"host": environment.host or DEFAULT_HOST, "evidence": options.evidence}
    names = {*LOCAL_NAMES, options.web_host}

    @app.before_request
    def check_request() -> None:
        if urlsplit(f"//{request.host}").hostname not in names:
            abort(403, f"Locust's page serves only this machine; the request was for {request.host}")
        if request.method == "GET":
            return
        origin = request.headers.get("Origin")
        if origin is not None and urlsplit(origin).netloc != request.host:
            abort(403, f"a page of another site ({origin}) may not control Locust")
        for name, value in fixed.items():
            if request.form.get(name, value) != value:
                abort(400, f"{name} is {value}; restart Locust with --{name} to change it")
