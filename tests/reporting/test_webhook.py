"""The webhook, on a real HTTP server: what it is sent, how it is signed, and what becomes of every kind of answer."""

import hashlib
import hmac
import json
import logging
import socket
import time
from pathlib import Path

import jsonschema
import pytest
from cases import for_each
from receivers import receiving
from records import at

import tidegate.reporting.webhook
from tidegate.protocol.facts.errors import ConfigurationError
from tidegate.protocol.observing.events import ALERTS, Event, EventKind
from tidegate.reporting.webhook import Webhook, sign, webhook_document

SECRET = "very secret"
SCHEMA = json.loads(Path(tidegate.reporting.webhook.__file__).with_name("webhook.schema.json").read_text())


@pytest.fixture
def receiver():
    with receiving() as receiver:
        yield receiver


def failed(message="Too few rows.", pipeline="p", checkpoint_id=7):
    return Event(pipeline, 12, EventKind.CHECKPOINT_FAILED, at(5), message, checkpoint_id, "VALIDATION_FAILED")


def webhook(receiver, path="/hook?token=hidden", secret=SECRET, **more):
    return Webhook(receiver.url + path, secret, "https://airflow.example/tidegate/", lambda: at(60), **more)


def test_a_receiver_can_tell_what_happened_and_who_says_so(receiver):
    assert webhook(receiver).notify(failed())
    (request,) = receiver.requests
    assert request.path == "/hook?token=hidden"
    assert request.headers["Content-Type"] == "application/json"
    assert request.headers["Tidegate-Event-Id"] == "p/12"
    time_, signature = (part.partition("=")[2] for part in request.headers["Tidegate-Signature"].split(","))
    signed = f"{time_}.".encode() + request.body
    assert signature == hmac.new(SECRET.encode(), signed, hashlib.sha256).hexdigest()
    assert int(time_) == at(60).timestamp()
    assert json.loads(request.body) == {
        "version": 1,
        "event_id": "p/12",
        "event": "CHECKPOINT_FAILED",
        "pipeline": "p",
        "checkpoint_id": 7,
        "timestamp": int(at(5).timestamp() * 1000),
        "reason": "VALIDATION_FAILED",
        "sentence": "The staged data did not meet its expectations.",
        "message": "Too few rows.",
        "link": "https://airflow.example/tidegate/pipelines/p/checkpoints/7",
    }


def test_without_a_secret_nothing_is_signed(receiver):
    assert webhook(receiver, secret=None).notify(failed())
    assert "Tidegate-Signature" not in receiver.requests[0].headers


def test_another_time_or_body_has_another_signature():
    assert len({sign(SECRET, b"a", at(0)), sign(SECRET, b"b", at(0)), sign(SECRET, b"a", at(1))}) == 3


@for_each("kind", sorted(ALERTS))
@for_each("pages", [None, "http://x"])
def test_what_is_sent_is_what_the_schema_says(kind, pages):
    event = Event("p", 1, kind, at(0), "what", 3 if kind.startswith("CHECKPOINT") else None)
    document = webhook_document(event, pages)
    jsonschema.validate(document, SCHEMA)
    assert set(document) == set(SCHEMA["properties"]) == set(SCHEMA["required"])
    assert set(SCHEMA["properties"]["event"]["enum"]) == set(ALERTS)


@pytest.mark.parametrize("text", ['"};</script>', "\0\r\nX-Injected: 1", "ü€\U0001f30a", "\ud800"])
def test_whatever_is_in_a_message_or_a_name_arrives_as_it_was(receiver, text):
    assert webhook(receiver).notify(failed(text, f"p{text}".replace("\ud800", "")))
    (request,) = receiver.requests
    assert json.loads(request.body)["message"] == text
    assert "X-Injected" not in request.headers


@pytest.mark.parametrize("status", [400, 401, 404, 410])
def test_a_refusal_is_one_of_this_event(receiver, status):
    receiver.answer = lambda request: status
    assert webhook(receiver).notify(failed()) is False


@pytest.mark.parametrize("status", [500, 502, 503, 408, 425, 429])
def test_a_receiver_that_is_not_well_was_not_reached(receiver, status):
    receiver.answer = lambda request: status
    with pytest.raises(OSError, match=str(status)):
        webhook(receiver).notify(failed())


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_redirect_is_followed(receiver, status):
    with receiving() as elsewhere:
        receiver.answer, receiver.location = lambda request: status, elsewhere.url
        assert webhook(receiver).notify(failed()) is False
        assert elsewhere.requests == []


def test_a_receiver_that_is_gone_was_not_reached(receiver):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        receiver.url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        with pytest.raises(OSError, match="refused"):
            webhook(receiver).notify(failed())


def test_a_receiver_that_never_answers_is_left_in_time():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        begun = time.monotonic()
        with pytest.raises(OSError, match=r"timed out|^$"):
            Webhook(url, None, None, lambda: at(0), patience=0.3).notify(failed())
        assert time.monotonic() - begun < 3


def test_one_that_answers_byte_by_byte_is_left_in_time_too(receiver):
    receiver.slow = 0.1
    begun = time.monotonic()
    with pytest.raises(TimeoutError):
        webhook(receiver, patience=0.5).notify(failed())
    assert time.monotonic() - begun < 3


@for_each("url", ["", "hook", "file:///etc/passwd", "ftp://x/hidden", "http://", "http://[hidden", "http://h:hidden/"])
def test_an_address_that_is_none_is_refused_and_not_shown(url):
    with pytest.raises(ConfigurationError) as refused:
        Webhook(url, SECRET, None, lambda: at(0))
    assert "hidden" not in str(refused.value)


def test_neither_address_nor_secret_is_shown_or_logged(receiver, caplog):
    hook = webhook(receiver)
    with caplog.at_level(logging.DEBUG):
        hook.notify(failed())
        receiver.answer = lambda request: 500
        with pytest.raises(OSError, match="500") as error:
            hook.notify(failed())
    for text in (repr(hook), str(hook), caplog.text, str(error.value)):
        assert "hidden" not in text
        assert SECRET not in text
