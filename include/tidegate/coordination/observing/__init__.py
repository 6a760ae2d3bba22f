"""Record user actions and their answers, and notify listeners, notifiers and meters of events."""
