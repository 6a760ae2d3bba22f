"""Puts on record who asked for what, and tells listeners, notifiers and meters what has happened."""
