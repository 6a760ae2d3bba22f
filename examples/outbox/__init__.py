"""Orders from the outbox of a shop's database: `orders` is the pipeline, and `plain` asks the database for the same.

docs/postgres-source.md explains it.
"""
