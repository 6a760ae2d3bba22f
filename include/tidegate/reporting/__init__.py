"""Receivers outside of Tidegate: a webhook and a lineage backend for events (`ports.Notifier`), a collector of figures
(`ports.Meter`).

`configured` finds out which are configured; each has a file of its own. Importing this package imports none of their
clients.
"""
