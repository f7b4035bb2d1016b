"""The statistics page: the numbers of one run as pictures, in one file that opens from disk without a network."""

from analytics.report.page import headline, render_page, statistics_as_json
from analytics.report.queries import RunStatistics, read_statistics

__all__ = ["RunStatistics", "headline", "read_statistics", "render_page", "statistics_as_json"]
