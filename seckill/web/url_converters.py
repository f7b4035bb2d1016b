"""Parts of addresses that Django's own converters do not check."""

from __future__ import annotations

from django.urls import register_converter
from django.urls.converters import IntConverter


class RowIdConverter(IntConverter):
    """The id of a row: at most 18 digits, so that it fits into 64 bits wherever it is looked up. Longer is a 404."""

    regex = "[0-9]{1,18}"


register_converter(RowIdConverter, "row_id")
