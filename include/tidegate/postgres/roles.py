"""The names of the database's roles."""

#: It runs pipelines and may do no more than that: see `grants`. Made by the embedded server, or by whoever looks after the
#: database.
RUNNING_ROLE = "tidegate_runner"
