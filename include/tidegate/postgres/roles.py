"""The names of the database's roles and of the schemas that roles share."""

#: Runs pipelines and may do no more than that, see `grants`. Created by the embedded server, or by the database's
#: administrator.
RUNNING_ROLE = "tidegate_runner"

#: The schema for records of sinks next to their tables in the same database. The running role creates tables in it.
SINKS_SCHEMA = "tidegate_sinks"

#: The schema of the catalog of Iceberg tables. Readers of these tables may read it, too.
ICEBERG_SCHEMA = "tidegate_iceberg"
