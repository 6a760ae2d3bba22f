"""Whether the server that runs this app is about to stop.

A mounted app gets no lifespan events, and a server waits for answers that are still being sent: one that never ends
would hold it up for ever. Uvicorn and the workers of gunicorn handle the signal to stop themselves and note it, which
can be seen from everywhere.
"""

import signal


def server_is_stopping() -> bool:
    """False under a server that does not note it."""
    server = getattr(signal.getsignal(signal.SIGTERM), "__self__", None)
    return getattr(server, "should_exit", False) is True or getattr(server, "alive", True) is False
