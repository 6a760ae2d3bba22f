"""Pipeline definitions: sources, operators and sinks, their options, their guarantees, and the check of the whole.

May import `ports` and `protocol`, and no heavy packages, because Airflow parses this package. Read `definition` first.
`graph` holds a definition that has been checked.
"""
