"""State that ends: customers who are active, and events that are passed on once a week. docs/ttl.md tells of them."""
