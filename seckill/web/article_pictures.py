"""Table: which drawing shows an article. The name of the article decides, because a sale stores nothing else about it.

The drawings are in static/seckill/articles.
"""

from __future__ import annotations

OTHER = "box"
_WORDS = {
    "phone": ("phone", "手机"),
    "headphones": ("headphone", "earphone", "headset", "earbud", "耳机"),
    "watch": ("watch", "手表", "腕表"),
    "shoe": ("shoe", "sneaker", "trainer", "boot", "鞋"),
    "camera": ("camera", "相机"),
    "bag": ("bag", "包"),
    "cup": ("cup", "mug", "tea", "coffee", "杯", "茶", "咖啡"),
}
PICTURES = (*_WORDS, OTHER)


def picture_of(sku: str) -> str:
    """The drawing whose word comes first in the name, so headphones are not a phone."""
    text = sku.lower()
    found = [(text.find(word), picture) for picture, words in _WORDS.items() for word in words if word in text]
    return min(found)[1] if found else OTHER
