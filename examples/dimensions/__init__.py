"""Tables that follow a file which is delivered whole every day, described in docs/how-to/load-dimension-tables.md."""
