"""The steps of a checkpoint, from `trigger` to `notify`, and the modules that they share."""
