"""State that expires: active customers, and events that are emitted once a week. See expire-state.md."""
