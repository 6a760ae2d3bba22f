"""The steps of one subtask for a checkpoint, and their events and effects."""
