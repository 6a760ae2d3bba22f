"""The names of the database's roles."""

#: Runs pipelines and may do no more than that, see `grants`. Made by the embedded server, or by the database's
#: administrator.
RUNNING_ROLE = "tidegate_runner"

#: The schema of what sinks keep beside their tables in the same database. The running role makes tables in it.
SINKS_SCHEMA = "tidegate_sinks"

#: The schema of the catalog of Iceberg tables: readers of these tables may read it, too.
ICEBERG_SCHEMA = "tidegate_iceberg"
