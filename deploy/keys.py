"""Secrets of a compose project: made once, into a volume that only containers see; none is in an image or a command.

`python deploy/keys.py FOLDER [--sandbox FOLDER]`. The payment provider has a folder of its own with the one secret that
it shares. One that is given in the environment by its name in capitals (SECRET_KEY=…) is taken instead of one made up,
and takes the place of an older one; all others stay what they are.
"""

from __future__ import annotations

import argparse
import os
import secrets
from collections.abc import Mapping
from pathlib import Path

OURS, OTHERS = 0o400, 0o444
"""Who may read it in the containers that have the volume: our own user, or another image's user, too."""
NAMES = {
    "secret_key": OURS,
    "provider_secret": OURS,
    "postgres_password": OTHERS,
    "database_password": OTHERS,
    "grafana_password": OTHERS,
}
KEPT = {"postgres_password", "database_password"}
"""Postgres takes them when its folder is made, and never again."""
SHARED = "provider_secret"
BYTES = 32


def make(folder: Path, given: Mapping[str, str]) -> list[str]:
    """What was written; each whole or not at all."""
    written = []
    for name, mode in NAMES.items():
        path, wanted = folder / name, given.get(name.upper(), "")
        if path.exists() and (name in KEPT or not wanted or path.read_text().strip() == wanted):
            continue
        _write(path, wanted or secrets.token_urlsafe(BYTES), mode)
        written.append(name)
    password = (folder / "database_password").read_text().strip()
    url = folder / "database_url"
    if not url.exists() or f":{password}@" not in url.read_text():
        _write(url, f"postgresql://seckill:{password}@postgres:5432/seckill", OURS)
        written.append(url.name)
    return written


def _write(path: Path, text: str, mode: int) -> None:
    fresh = path.with_suffix(".new")
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text + "\n")
        os.fchmod(file.fileno(), mode)
    fresh.replace(path)


def share(folder: Path, sandbox: Path) -> None:
    """Give the payment provider its copy of the secret that signs callbacks."""
    secret = (folder / SHARED).read_text().strip()
    copy = sandbox / SHARED
    if not copy.exists() or copy.read_text().strip() != secret:
        _write(copy, secret, OURS)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python deploy/keys.py", description="Make the secrets of a compose project.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sandbox", type=Path, metavar="FOLDER", help="folder for the payment provider's copy")
    chosen = parser.parse_args()
    for each in filter(None, (chosen.folder, chosen.sandbox)):
        if not each.is_dir():
            parser.error(f"{each} is not a folder")
    made = make(chosen.folder, os.environ)
    if chosen.sandbox:
        share(chosen.folder, chosen.sandbox)
    print("secrets: " + (", ".join(made) + " written" if made else "all there"))
