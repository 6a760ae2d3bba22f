"""A user's project: the pipelines registered in its pyproject.toml, the scaffold of a new one, and the checks of
`tidegate doctor`.

May import `embedded_postgres`, `pipeline`, `postgres`, `protocol`, `spark`, `state` and settings.
"""
