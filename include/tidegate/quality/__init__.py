"""Great Expectations behind the `Validator` port: judges what a checkpoint staged, and writes reports that people read.

Reading order: `validator` (a verdict for each target), `judgement` (rows against one suite), `one_pass` (in few Spark
jobs), `arrow_pass` (in none), `json_values` (what is kept of a result), `docs` (the page of a checkpoint), `importing`
(the library).
May import `pipeline`, `ports` and `protocol`. Importing these modules imports neither Great Expectations nor Spark,
which takes seconds, and Airflow parses often.
"""
