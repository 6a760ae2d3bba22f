"""The steps of a checkpoint, one file each, from `trigger` to `notify` and `abort`, and the decisions they share."""
