"""A sink and a source of one's own, as docs/how-to/write-a-sink-or-source.md shows them."""
