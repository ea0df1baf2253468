"""A release as a page to read: its promise, its numbers, their errors, and what it can be asked."""

from hush.report.page import report_html, write_report

__all__ = ["report_html", "write_report"]
