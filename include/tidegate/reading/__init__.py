"""Read-only questions about the database, for pages, their API and commands.

Each question is one method of `Readings` and has one answer, a pydantic model: pages show its fields, API and commands
print it as JSON, and schemas are generated from it. All questions read the store's tables. The options and the graph's
edges are recorded only in a checkpoint's `_metadata`, which is read from checkpoint storage once. No question needs the
pipeline's code.

Reading order: `readings` (all questions), `answer` (the base of every answer), `pipeline_answers`, `history_answers`
and `checkpoint_answers` (the answers), `checkpoint_rows` (a row as an answer), then a file of queries for each kind of
question. `changes` notifies subscribers when it is time to ask again.
"""
