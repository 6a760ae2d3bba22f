"""Great Expectations behind the `Validator` port: validates the rows that a checkpoint staged, and writes reports.

Reading order: `validator` (a verdict for each target), `suite_validation` (rows against one suite), `one_pass` (in few
Spark jobs), `arrow_pass` (in none), `json_values` (the stored form of results), `docs` (the page of a checkpoint),
`importing` (the library).

May import `pipeline`, `ports` and `protocol`. Importing these modules imports neither Great Expectations nor Spark,
because that takes seconds and Airflow parses often.
"""
