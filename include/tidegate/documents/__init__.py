"""Answers that only some show: the routes of the API, the commands, and what people have asked for.

What pages, API and commands share is made where it is read (`reading.answer`). Fields that Flink's REST API has too
carry its names (json-output.md says which differ). Reading order: `audit`, `pipeline_models` (what the API
puts around answers), `command_models` and `plan_models` (what commands print), `restores` (the plan of a restore, which
is stored and compared as JSON).
"""
