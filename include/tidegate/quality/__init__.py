"""Great Expectations behind the `Validator` port: judging what a checkpoint staged, and reports a person can read.

Reading order: `validator` (a verdict for each target), `judgement` (one DataFrame against one suite), `json_values`
(what is kept of a result), `docs` (the page of a checkpoint), `report` (the same as text).
Importing these modules imports neither Great Expectations nor Spark: that costs seconds, and Airflow parses often.
"""
