"""Orders from the outbox of a shop's database. `orders` is the pipeline, and `plain` has the same as SQL queries.

docs/how-to/read-from-postgres.md explains it.
"""
