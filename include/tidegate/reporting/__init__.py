"""Who is told of what happens to pipelines, outside of Tidegate: a webhook and a lineage backend of events
(`ports.Notifier`), a collector of figures (`ports.Meter`).

`configured` finds out which there are; each has a file of its own. Importing this room imports no client of them.
"""
