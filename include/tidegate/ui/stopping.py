"""Whether the server that runs this app is about to stop.

A mounted app gets no lifespan events, and a server waits for answers that are still being sent: one that never ends
would hold it up for ever. Uvicorn handles the signal to stop itself and notes it, which can be seen from everywhere.
"""

import signal


def server_is_stopping() -> bool:
    """False under a server that does not note it."""
    handler = signal.getsignal(signal.SIGTERM)
    server = getattr(handler, "__self__", None)
    return bool(getattr(server, "should_exit", False))
