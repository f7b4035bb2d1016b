"""The manifests of deploy/kubernetes as tests read them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parents[3] / "deploy" / "kubernetes"

Manifest = dict[str, Any]


def documents(folder: Path = FOLDER) -> Iterator[tuple[str, Manifest]]:
    """Each manifest with the name of its file."""
    for path in sorted(folder.rglob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text()):
            yield str(path.relative_to(folder)), document


def in_base(kind: str) -> dict[str, Manifest]:
    return {
        document["metadata"]["name"]: document
        for file, document in documents()
        if file.startswith("base/") and document["kind"] == kind
    }


def pod_of(manifest: Manifest) -> Manifest:
    pod: Manifest = manifest["spec"]["template"]["spec"]
    return pod
