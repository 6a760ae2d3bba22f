"""Columns of inputs, of keyed state and of tables, and the expiry of state."""
