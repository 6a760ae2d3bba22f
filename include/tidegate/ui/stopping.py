"""The check whether the server that runs this app is about to stop.

A mounted app gets no lifespan events, and a server waits for answers that are still being sent, so an endless one would
hold it up for ever. Uvicorn and the workers of gunicorn handle the signal to stop themselves and set a flag, which is
readable from everywhere.
"""

import signal


def server_is_stopping() -> bool:
    """Whether the server is stopping; False under a server without such a flag."""
    server = getattr(signal.getsignal(signal.SIGTERM), "__self__", None)
    return getattr(server, "should_exit", False) is True or getattr(server, "alive", True) is False
