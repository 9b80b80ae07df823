"""Reports: HTML files that open from disk. `page` is the look they share, `run` the report of run folders."""
