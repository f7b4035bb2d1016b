"""The reports there have been, and the word that makes another: `seckill report`, beside the sale, into the stack's
folder. One at a time; the console waits for none of them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.http import require_GET, require_http_methods

from seckill.audit.trail import acting
from seckill.console.permissions import demand
from seckill.console.staff import for_operators
from seckill.headers import POLICY

NAME = re.compile(r"[0-9]{8}-[0-9]{6}")
PATIENCE_S, LONGEST_S = 20, 900
MOST = 50
ALONE = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; sandbox allow-scripts"
)
"""A report is one file with its own style: it runs by itself, apart from the console."""

_running = threading.Lock()


@require_http_methods(["GET", "POST"])
@for_operators
def reports(request: HttpRequest) -> HttpResponse:
    folder = _folder()
    if request.method == "POST":
        demand(request, "report")
        if folder is None or not _begin(folder):
            text = gettext("One is being made already.") if folder else gettext("There is no folder to keep it in.")
            request.session["said"] = {"text": text, "good": False}
        return HttpResponseRedirect(reverse("console:reports"), status=303)
    told = {
        "reports": [] if folder is None else _listed(folder),
        "has_folder": folder is not None,
        "is_running": _running.locked(),
        "said": request.session.pop("said", None),
    }
    return render(request, "console/reports.html", told)


@require_GET
@for_operators
def report(request: HttpRequest, name: str) -> HttpResponse:
    folder = _folder()
    path = folder / f"{name}.html" if folder is not None and NAME.fullmatch(name) else None
    if path is None or not path.is_file():
        raise Http404
    return HttpResponse(path.read_bytes(), headers={POLICY: ALONE})


def _folder() -> Path | None:
    stack = settings.ENVIRONMENT.stack_folder
    return Path(stack) / "reports" if stack else None


def _begin(folder: Path) -> bool:
    """False: one is under way."""
    if not _running.acquire(blocking=False):
        return False
    try:
        folder.mkdir(parents=True, exist_ok=True)
        name = f"{datetime.now(UTC):%Y%m%d-%H%M%S}"
        with acting("report", name):
            threading.Thread(target=_make, args=(folder, name), name="report", daemon=True).start()
    except BaseException:
        _running.release()
        raise
    return True


def _make(folder: Path, name: str) -> None:
    command = [
        sys.executable, "-m", "seckill.cli", "report", "--data", str(folder.parent), "--patience", str(PATIENCE_S),
        "--json", str(folder / f"{name}.json"), "--html", str(folder / f"{name}.html"),
    ]  # fmt: skip
    try:
        with (folder / f"{name}.log").open("wb") as output:
            subprocess.run(command, stdout=output, stderr=output, timeout=LONGEST_S)
    except subprocess.TimeoutExpired:
        pass  # its log says how far it came
    finally:
        _running.release()


def _listed(folder: Path) -> list[dict[str, Any]]:
    """The newest first. One that has a log and no result failed, or is being made."""
    return [_row(folder, path.stem) for path in sorted(folder.glob("*.log"), reverse=True)[:MOST]]


def _row(folder: Path, name: str) -> dict[str, Any]:
    at = datetime.strptime(name, "%Y%m%d-%H%M%S").replace(tzinfo=UTC)
    row: dict[str, Any] = {"name": name, "at": at, "verdict": "", "counts": {}}
    try:
        said = json.loads((folder / f"{name}.json").read_text())
    except (OSError, ValueError):
        is_new = time.time() - at.timestamp() < LONGEST_S
        return row | {"verdict": "…" if is_new and _running.locked() else "?"}
    verdicts = [each["verdict"] for each in said["invariants"]]
    counts = {verdict: verdicts.count(verdict) for verdict in dict.fromkeys(verdicts)}
    return row | {"verdict": said["verdict"], "counts": counts}
