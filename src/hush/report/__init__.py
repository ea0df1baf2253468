"""A release as a page to read: what it promises, what it says, how exact it is and what can be asked."""

from hush.report.page import report_html, write_report

__all__ = ["report_html", "write_report"]
