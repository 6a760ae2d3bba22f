"""The project's own Postgres server, and whether it is the one to use: its files, its account, its start and its end.

May import `postgres`, `protocol` and settings.
"""
