"""The checkpoint protocol as pure decisions: facts in, a closed set of outcomes out, no effects.

Everything here imports the standard library only and reads no clock, no environment and no randomness; they arrive as
arguments. Reading order: `facts` (`records` first), then `steps`, one file a step: `trigger`, `snapshot`,
`acknowledge`, `validate`, `finalize`, `notify`, `abort`. What stands above them: `recovery` (the way back), `cleaning`
(what goes), `observing` (what others see). What stands below: `continuous`, `schema`, `text`. Inside a region:
`barriers` (`messages` first, then the handlers; `options` chooses one) and `subtask`.
"""
