"""Barriers at one operator's inputs: the messages, and a handler for each way to align. `options` chooses one."""
