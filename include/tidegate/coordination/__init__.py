"""The coordinator: reads facts, lets `protocol` decide, and writes what was decided; one verb of the protocol a file.

May import `pipeline`, `ports` and `protocol`, never an adapter: those are handed in. `coordinator` comes first, then
`trigger`, `restore`, `snapshot`, `finalize`, `notify` (with `commit_attempts`), `cleanup` (with `deletions`) and
`clean`; `pipeline_status`, `checkpoint_failures`, `region_lease`, `identity` and `listeners` are what they share.
`operations` is what people do by hand, without a definition, and `audit` its record. `continuous_run` drives a pipeline
that runs continuously.
"""
