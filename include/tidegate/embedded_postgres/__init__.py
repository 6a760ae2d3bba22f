"""The project's own Postgres server: its files, its account, its start and stop, and the choice between it and another
one.

May import `postgres`, `protocol` and settings.
"""
