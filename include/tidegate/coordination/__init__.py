"""The coordinator: reads facts, lets `protocol` decide, and writes what was decided; one verb of the protocol a file.

May import `pipeline`, `ports` and `protocol`, never an adapter: those are handed in. `coordinator` comes first.
"""
