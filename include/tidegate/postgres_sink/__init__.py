"""Tables in Postgres that change in the transaction that completes a checkpoint, or in one transaction after it."""
