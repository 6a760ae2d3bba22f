"""What others see of a pipeline: events, figures, staleness, lag, and who asked for what."""
