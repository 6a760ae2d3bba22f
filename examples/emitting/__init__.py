"""Operators that emit rows. Each file is an example of one, `shop` combines them, and `plain` computes the same without
Spark.

docs/how-to/join-streams-and-emit-rows.md explains them.
"""
