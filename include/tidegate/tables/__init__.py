"""What programs read: several tables of a pipeline as of one checkpoint, with its code or without it.

Reading order: `finding` (`tidegate.read`: which checkpoint, and where its rows are), `result` (what it returns),
`rows` (how each library opens them), `described` (a sink without the pipeline's code). May import `assembly` and,
inside functions, the rooms below it.
"""
