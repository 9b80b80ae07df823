"""Reports: HTML files that open from disk. `page` is the look they share."""

from accord.report.demo import write_report

__all__ = ["write_report"]
