"""Reports: HTML files that open from disk. `page` is what they share, `run_report` the report of run folders."""
