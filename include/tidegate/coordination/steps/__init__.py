"""The steps of a checkpoint, from `trigger` to `notify`, and what they share."""
