"""Which drawing shows an article."""

from __future__ import annotations

from pathlib import Path

import pytest

from seckill.web import article_pictures
from seckill.web.article_pictures import PICTURES, picture_of
from seckill.web.tags import countdown

FOLDER = Path(article_pictures.__file__).parent / "static/seckill/articles"


@pytest.mark.parametrize(
    ("sku", "picture"),
    [
        ("Aurora Phone 12", "phone"), ("phone", "phone"), ("旗舰手机", "phone"), ("Hush headphones", "headphones"),
        ("蓝牙耳机", "headphones"), ("watch for a phone", "watch"), ("Trail SNEAKERS", "shoe"),
        ("article-7", "box"), ("", "box"),
    ],
)  # fmt: skip
def test_the_first_word_that_is_known_decides(sku: str, picture: str) -> None:
    assert picture_of(sku) == picture


def test_there_is_a_drawing_for_each_name_and_none_besides() -> None:
    assert {path.stem for path in FOLDER.glob("*.svg")} == set(PICTURES)


@pytest.mark.parametrize(
    ("left_s", "text"),
    [(-5, "0:00"), (59, "0:59"), (3599, "59:59"), (3600, "1:00:00"), (86_399, "23:59:59"), (86_460, "1 d 0:01:00")],
)
def test_a_countdown_has_as_many_parts_as_it_needs(left_s: int, text: str) -> None:
    assert countdown(left_s * 1000, 0).endswith(f">{text}</time>")
