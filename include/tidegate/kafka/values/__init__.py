"""What the values of a topic are made into, and made of: Arrow, in Spark's tasks."""
