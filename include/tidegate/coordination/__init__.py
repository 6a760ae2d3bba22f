"""The coordinator: reads facts, lets `protocol` decide, and writes what was decided; one verb of the protocol a file.

May import `pipeline`, `ports` and `protocol`, never an adapter: those are handed in. `coordinator` comes first, then
`trigger`, `restore`, `snapshot`, `finalize`, `notify` (with `commit_attempts`), `cleanup` and `clean`;
`pipeline_status`, `region_lease`, `identity` and `listeners` are what they share. `continuous_run` drives a pipeline
that runs continuously.
"""
