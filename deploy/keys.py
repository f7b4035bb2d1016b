"""Secrets of a compose project: made once, into a volume that only containers see; none is in an image or a command.

`python deploy/keys.py FOLDER`. One that is given in the environment by its name in capitals (SECRET_KEY=…) is taken
instead of one made up, and takes the place of an older one; all others stay what they are.
"""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Mapping
from pathlib import Path

OURS, OTHERS = 0o400, 0o444
"""Who may read it in the containers that have the volume: our own user, or another image's user, too."""
NAMES = {
    "secret_key": OURS,
    "provider_secret": OURS,
    "database_password": OTHERS,
    "grafana_password": OTHERS,
}
KEPT = {"database_password"}
"""Postgres takes it when its folder is made, and never again."""
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


if __name__ == "__main__":
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_dir():
        sys.exit("python deploy/keys.py FOLDER")
    made = make(Path(sys.argv[1]), os.environ)
    print("secrets: " + (", ".join(made) + " written" if made else "all there"))
