"""What barriers mean at one operator's inputs: the messages, and a handler for each way of aligning; `options` chooses.

Of the protocol's other files it may import `errors` and `reasons`.
"""
