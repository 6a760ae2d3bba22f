"""Mistakes that users make, each as they make it: a definition, a command, or data. `tests/documents/test_mistakes.py`
makes them all, and docs/reference/error-messages.md is what it saw."""
