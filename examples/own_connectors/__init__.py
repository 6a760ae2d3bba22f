"""A sink and a source of one's own, as docs/own-connectors.md shows them."""
