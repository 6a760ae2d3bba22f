"""Rows of a table in Postgres, read by snapshots of transactions: `PostgresSource`."""
