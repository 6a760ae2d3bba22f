"""Columns: of inputs, of keyed state and when its rows expire, of tables."""
