"""Documents that only one surface shows: the routes of the API, the commands, and the audit log.

Answers that pages, API and commands share are built in `reading` (`reading.answer`). Fields that Flink's REST API has
too carry its names (docs/reference/json-output.md lists the differences). Reading order: `audit`, `pipeline_models`
(the API's envelopes around answers), `command_models` and `plan_models` (the output of commands), `restores` (the plan
of a restore, which is stored and compared as JSON).
"""
