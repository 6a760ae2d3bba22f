"""Tables that follow a file which is delivered whole every day, described in docs/dimensions.md."""
