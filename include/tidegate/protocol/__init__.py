"""The checkpoint protocol as pure decisions: facts in, a closed set of outcomes out, no effects.

Everything here imports the standard library only. Clock, environment and randomness arrive as arguments.

Read `facts` first (`records`, then the rest), then `steps`, one file a step: `trigger`, `snapshot`, `acknowledge`,
`validate`, `finalize`, `notify`, `abort`. Built on them are `recovery` (restores), `cleaning` (deletion) and
`observing` (events, metrics, audit). `continuous`, `schema` and `text` support the steps. Inside a region: `barriers`
(`messages` first, then the handlers; `options` chooses one) and `subtask`.
"""
