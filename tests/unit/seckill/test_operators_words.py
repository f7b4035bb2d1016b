"""What operators are told when a word makes no sense, or nobody is there to hear it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

NOBODY = "postgresql://seckill@127.0.0.1:1/seckill"


def said(folder: Path, *words: str) -> tuple[int, str]:
    environment = os.environ | {"SECKILL_DATABASE_URL": NOBODY}
    command = [sys.executable, "-m", "seckill.cli", *words, "--data", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60)
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    "words", [("audit",), ("refund", "57437eb3-6d1f-59ca-aeaf-658467b40766")], ids=lambda words: str(words[0])
)
def test_without_a_stack_a_word_ends_in_one_line_and_not_in_a_traceback(tmp_path: Path, words: tuple[str, ...]) -> None:
    code, text = said(tmp_path, *words)
    assert code == 3
    assert "seckill: the database cannot be asked" in text
    assert "Traceback" not in text


def test_what_is_no_orders_id_is_refused_before_anything_is_asked(tmp_path: Path) -> None:
    code, text = said(tmp_path, "refund", "the-phone")
    assert code == 2
    assert "'the-phone' is no order's id" in text
