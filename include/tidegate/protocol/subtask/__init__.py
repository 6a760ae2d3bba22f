"""The steps of one subtask for a checkpoint, and the messages that they answer and give."""
