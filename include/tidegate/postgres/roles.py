"""The names of the database's roles."""

#: Runs pipelines and may do no more than that, see `grants`. Made by the embedded server, or by the database's
#: administrator.
RUNNING_ROLE = "tidegate_runner"
