"""The coordinator: reads facts, lets `protocol` decide, and writes what was decided; one verb of the protocol a file.

May import `pipeline`, `ports` and `protocol`, never an adapter: those are handed in. `coordinator` comes first, then
its drawers, which have the names of `protocol`'s: `steps` (`trigger`, `snapshot`, `validate`, `finalize`, `notify`),
`recovery`, `cleaning`, `observing`. `operations` is what people do by hand, without a definition. `continuous` drives a
pipeline that runs continuously, through the coordinator.
"""
