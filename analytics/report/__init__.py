"""The page: what the tables say, in pictures; one file that opens from disk and needs no network."""

from analytics.report.page import as_json, sentence, written
from analytics.report.reading import Found, read

__all__ = ["Found", "as_json", "read", "sentence", "written"]
