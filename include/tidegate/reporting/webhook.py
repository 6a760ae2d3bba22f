"""A notifier that posts signed events to an address. `webhook.schema.json` describes the body.

The address and the key are secrets: neither they nor an error's text are ever logged, and no redirect is followed.
"""

import hashlib
import hmac
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import IO, Any
from urllib.error import HTTPError
from urllib.parse import quote, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from tidegate.protocol.facts.errors import ConfigurationError
from tidegate.protocol.observing.events import ALERTS, Event, EventKind, sentence
from tidegate.reporting.deadline import PATIENCE, within

SIGNATURE = "Tidegate-Signature"
EVENT_ID = "Tidegate-Event-Id"

#: The receiver is reachable but temporarily refuses requests. Any other refusal concerns this event.
_NOT_NOW = frozenset({408, 425, 429})
_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


@dataclass(frozen=True)
class Webhook:
    """A notifier. `pages` is the address of the Checkpoints pages, if there are any; `now` gives the time of the
    signature.

    Raises:
        ConfigurationError: If the address is not an http or https URL. The text does not show it.
    """

    url: str = field(repr=False)
    secret: str | None = field(repr=False)
    pages: str | None
    now: Callable[[], datetime]
    patience: float = PATIENCE
    name: str = "webhook"
    kinds: frozenset[EventKind] = ALERTS

    def __post_init__(self) -> None:
        if not _is_address(self.url):
            raise ConfigurationError(
                "The address of the webhook (TIDEGATE_WEBHOOK_URL, or Airflow's connection tidegate_webhook) is not an "
                "http or https URL. It is not shown here, because it may be a secret. Nothing was changed. Correct it, "
                "or remove it."
            )

    def notify(self, event: Event) -> bool:
        body = json.dumps(webhook_document(event, self.pages)).encode()
        headers = {"Content-Type": "application/json", "User-Agent": "tidegate", EVENT_ID: quote(event.event_id)}
        if self.secret:
            headers[SIGNATURE] = sign(self.secret, body, self.now())
        return within(self.patience, lambda: self._post(Request(self.url, body, headers, method="POST")))

    def _post(self, request: Request) -> bool:
        try:
            with build_opener(_NoRedirect).open(request, timeout=self.patience):
                return True
        except HTTPError as error:
            with error:
                if error.code >= 500 or error.code in _NOT_NOW:
                    raise
                return False


class _NoRedirect(HTTPRedirectHandler):
    """A handler that follows no redirect, so that a request signed for one address is sent to no other."""

    def redirect_request(self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str) -> None:
        return None


def webhook_document(event: Event, pages: str | None) -> dict[str, Any]:
    """Return the body as JSON. Performs no I/O."""
    return {
        "version": 1,
        "event_id": event.event_id,
        "event": event.kind.value,
        "pipeline": event.pipeline_id,
        "checkpoint_id": event.checkpoint_id,
        "timestamp": (event.at - _EPOCH) // timedelta(milliseconds=1),
        "reason": event.reason,
        "sentence": sentence(event),
        "message": event.message,
        "link": None if pages is None else page_of(event, pages),
    }


def page_of(event: Event, pages: str) -> str:
    """Return the address of the page that shows the subject of an event. Performs no I/O."""
    pipeline = f"{pages.rstrip('/')}/pipelines/{quote(event.pipeline_id, safe='')}"
    return pipeline if event.checkpoint_id is None else f"{pipeline}/checkpoints/{event.checkpoint_id}"


def sign(secret: str, body: bytes, at: datetime) -> str:
    """Return the value of the signature's header: HMAC-SHA256 over the time, a dot and the body.

    The time is signed too, so that a receiver can reject a recorded event that is sent again. Performs no I/O.
    """
    time = str((at - _EPOCH) // timedelta(seconds=1))
    digest = hmac.new(secret.encode(), time.encode() + b"." + body, hashlib.sha256).hexdigest()
    return f"t={time},v1={digest}"


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
