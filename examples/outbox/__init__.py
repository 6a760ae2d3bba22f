"""Orders from the outbox of a shop's database: `orders` is the pipeline, and `plain` asks the database for the same.

docs/how-to/read-from-postgres.md explains it.
"""
