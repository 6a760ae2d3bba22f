"""Tables that follow a file that is delivered as a whole every day. docs/how-to/load-dimension-tables.md explains them."""
