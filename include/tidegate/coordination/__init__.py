"""Drive checkpoints: read the facts, let `protocol` decide, and write the decision. Each file has one verb of the
protocol.

This package may import `pipeline`, `ports` and `protocol`, never an adapter: adapters are handed in. `coordinator`
comes first. The folders below it have the names of `protocol`'s: `steps` (`trigger`, `snapshot`, `validate`,
`finalize`, `notify`), `recovery`, `cleaning`, `observing`. `operations` has the user actions that need no definition
of the pipeline. `continuous` drives a pipeline that runs continuously, through the coordinator.
"""
