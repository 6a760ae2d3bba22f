"""Operators that emit: each file is a worked example of one, `shop` puts them together, and `plain` computes the
same without Spark.

docs/how-to/join-streams-and-emit-rows.md explains them.
"""
