"""The lab: the paper's tables, leaderboards, studies of labels and injected noise, and their verification."""
