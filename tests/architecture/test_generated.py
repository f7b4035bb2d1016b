"""The pages in docs/generated say what the code says."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs import generate


def test_no_generated_page_is_stale() -> None:
    assert generate.stale() == [], "make docs"


def test_a_page_that_differs_is_stale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generate, "FOLDER", tmp_path)
    generate.main([])
    assert generate.stale() == []
    page = tmp_path / "api-versions.md"
    page.write_text(page.read_text(encoding="utf-8").replace("Produce", "Product"), encoding="utf-8")
    assert generate.stale() == ["api-versions.md"]
