"""What is known of pipelines and checkpoints, as JSON: the same from the command line and from the pages' API.

Fields that Flink's REST API has too carry its names (docs/configuration.md says which differ): timestamps are
milliseconds since 1970, sizes bytes, durations milliseconds, -1 if nothing was reported. Reading order: `values` (how a
single value is written), `checkpoints`, `pipelines`.
"""
