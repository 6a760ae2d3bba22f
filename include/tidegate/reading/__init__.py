"""What pages, their API and commands show of the database: questions that change nothing.

Each question is one method of `Readings` and has one answer, a pydantic model: pages show its fields, API and commands
print it as JSON, schemas are made of it. All of them read the store's tables; what only a checkpoint's `_metadata` says
(the options, the graph's edges) is read from checkpoint storage, once. No question needs the pipeline's code.

Reading order: `readings` (all questions), `answer` (what an answer is), `pipeline_answers`, `history_answers` and
`checkpoint_answers` (what they return), `checkpoint_rows` (a row as an answer), then a file of queries for each kind of
question. `changes` tells subscribers that it is time to ask again.
"""
