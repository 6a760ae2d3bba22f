"""Two pipelines in a chain: bronze takes files into an Iceberg table, and silver reads what is appended to that."""
