"""A user's project: its pyproject.toml with the pipelines that are registered, how one is begun, and whether this
machine has what it needs. May import `embedded_postgres`, `pipeline`, `postgres`, `protocol`, `spark`, `state` and
settings."""
