"""The checkpoint protocol as pure decisions: facts in, a closed set of outcomes out, no effects.

Everything here imports the standard library only and reads no clock, no environment and no randomness; they arrive as
arguments. Reading order: `records` (the nouns), `names` and `paths` (what they are called), `lifecycle` (what may
follow what), `reasons` and `errors`, then one file a step: `trigger`, `snapshot`, `acknowledge`, `validate`,
`finalize`, `notify`, `abort`, `restore`, and the modules they use: `admission`, `pipelines` and `failures` (which
requests may start), `own_files` (which a report may name), `retention`, `leftovers` and `kept` (what goes, and what is
kept), `keygroups`, `statistics`. What people ask for is in `gestures`.
Inside a region: the folders `barriers` (`messages` first, then the handlers; `options` chooses one) and `subtask`.
"""
