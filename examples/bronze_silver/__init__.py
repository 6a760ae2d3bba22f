"""Two pipelines in a chain: bronze appends files to an Iceberg table, and silver reads the appended rows."""
