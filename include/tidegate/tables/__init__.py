"""Read several tables of a pipeline as of one checkpoint, with its code or without it.

Reading order: `finding` (`tidegate.read`: find the checkpoint and its rows), `result` (the tables that it returns),
`rows` (open them with each library), `described` (a sink without the pipeline's code). May import `assembly` and,
inside functions, the rooms below it.
"""
