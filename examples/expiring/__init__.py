"""State that ends: customers who are active, and events that are passed on once a week. See expire-state.md."""
