"""The steps of one subtask for a checkpoint, and the messages that they answer and give.

Of the protocol's other parts it may import `barriers` and `reasons`.
"""
