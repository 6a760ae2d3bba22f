"""What a user writes, and its check as a whole: sources, operators and sinks, their options, what they guarantee.

May import `ports` and `protocol`, and nothing heavy: Airflow parses it. `definition` comes first, `graph` is the same,
checked.
"""
