"""Tables that follow a file that is delivered as a whole every day. See load-dimension-tables.md."""
