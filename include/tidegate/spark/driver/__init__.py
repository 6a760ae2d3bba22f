"""The driver's part of the Spark jobs of operator chains: it builds and starts them. May import `executor` and
`session`."""
