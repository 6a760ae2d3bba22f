"""The outside view of a pipeline: events, figures, staleness, lag, and the audit of user actions."""
