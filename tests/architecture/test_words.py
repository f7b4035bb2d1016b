"""Bans a few constructions that are never good English here. CONTRIBUTING.md has the rest as advice."""

from __future__ import annotations

import io
import re
import subprocess
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.links import ROOT

BANNED = re.compile(
    r"(?<!here )\bis (?:no (?!longer|more|less|better|worse|doubt|need|way|reason|use\b)|(?-i:none)\b)"
    r"|\banew\b|\bfor ever\b|\bwhat became of\b|\bwhoever\b"
    r"|(?:^|[.:;,(–—]\s|\b(?:and|but|or|so|that|if|then|test)\s)who (?:waits|asks|comes)\b",
    re.IGNORECASE | re.MULTILINE,
)

# Purchases through the gateway: these modules and pages are replaced together, so they are not polished one by one.
GATEWAY_HOT_PATH = {
    *(f"gateway/{name}.py" for name in (
        "door", "hatch", "clerk", "desk", "rounds", "submissions", "staying", "offered", "serving", "rsgi", "wsgi"
    )),
    *(f"tests/unit/gateway/test_{name}.py" for name in (
        "door", "hatch", "clerk", "desk", "rounds", "submissions", "staying", "serving"
    )),
}  # fmt: skip
NOT_OURS = {"requirements.lock", "tests/architecture/test_words.py"}
SUFFIXES = (".py", ".md", ".html", ".js", ".css", ".yml", ".yaml", ".toml", ".sh", ".cfg", "Makefile", "Dockerfile")


def prose_of_python(source: str) -> Iterator[str]:
    """Comments, strings and the names of tests; not code, where `x is None` is normal."""
    lines: list[str] = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            lines.append(token.string.lstrip("# "))
            continue
        if token.type not in (tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT):
            yield " ".join(lines)  # a comment may go over several lines
            lines = []
        if token.type == tokenize.STRING:
            yield re.sub(r"\s+", " ", token.string.strip("rbfRBF\"'"))
        elif token.type == tokenize.NAME and token.string.startswith("test_"):
            yield token.string.replace("_", " ")
    yield " ".join(lines)


def offences(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8")
    pieces = prose_of_python(text) if path.suffix == ".py" else [re.sub(r"(?<!\n)[ \t]*\n(?!\n)[ \t]*", " ", text)]
    return [
        piece[max(0, found.start() - 30) : found.end() + 30].strip()
        for piece in pieces
        for found in BANNED.finditer(piece)
    ]


def texts() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True
    )
    names = (name for name in listed.stdout.splitlines() if name.endswith(SUFFIXES))
    return [
        ROOT / name
        for name in names
        if name not in GATEWAY_HOT_PATH | NOT_OURS and "/generated/" not in name and (ROOT / name).is_file()
    ]


def test_no_text_uses_a_banned_construction() -> None:
    paths = texts()
    assert len(paths) > 500, "the list of files is not empty"
    assert {str(path.relative_to(ROOT)): found for path in paths if (found := offences(path))} == {}


@pytest.mark.parametrize(
    "text",
    [
        "This is no list.",
        "If there was one, it is none now.",
        "Count the gate anew.",
        "It stays for ever.",
        "Say what became of the request.",
        "Whoever has the lock writes.",
        "Who waits for the lock is served in order.",
        "The lock is taken; who comes second starts again.",
    ],
)
def test_a_banned_construction_is_found(tmp_path: Path, text: str) -> None:
    page, module, tests = tmp_path / "page.md", tmp_path / "module.py", tmp_path / "test_names.py"
    page.write_text(f"# Title\n\n{text}\n")
    module.write_text(f'"""{text}"""\n')
    name = re.sub(r"\W+", "_", text.lower()).strip("_")
    tests.write_text(f"def test_{name}() -> None: ...\n")
    assert offences(page) and offences(module)
    assert offences(tests) or ";" in text, "a name has no punctuation"


@pytest.mark.parametrize(
    "text",
    [
        "There is no topic of this name.",
        "It is no longer open.",
        "A buyer who waits is told so.",
        "Ask who comes next.",
    ],
)
def test_ordinary_english_passes(tmp_path: Path, text: str) -> None:
    page = tmp_path / "page.md"
    page.write_text(text)
    assert offences(page) == []


def test_code_is_not_prose(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text("value = None\nanew = value is None\n")
    assert offences(module) == []
