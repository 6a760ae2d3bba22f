"""Deletes what nobody refers to, says what is kept and what it costs, and verifies it."""
