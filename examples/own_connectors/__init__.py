"""A sink and a source of a user's own, as shown in docs/how-to/write-a-sink-or-source.md."""
