"""The Spark jobs of operator chains, as the driver builds and starts them. May import `executor` and `session`."""
