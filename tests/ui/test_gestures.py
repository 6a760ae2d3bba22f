"""What people do by hand over HTTP: done once, refused with a sentence, on record with who asked, and only from here."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import uuid4

import httpx
import pytest
from shown_pipelines import ShownPipeline
from sqlalchemy.engine import make_url
from worlds import MemoryStorage

from tidegate.clock import SystemClock
from tidegate.coordination.all_operations import AllOperations
from tidegate.postgres.engine import connect
from tidegate.postgres.store import PostgresCheckpointStore
from tidegate.protocol.records import CheckpointKind
from tidegate.ui.same_site import token_of

PIPELINE = "flight_delays"
Act = Callable[..., tuple[int, str]]
Token = Callable[[str | None], str]


@dataclass
class Hands:
    """Somebody who is logged in with a token."""

    get: Callable[..., httpx.Response]
    credential: str

    def do(
        self, path: str, request_id: str = "", headers: dict[str, str] | None = None, **given: Any
    ) -> httpx.Response:
        told = {"Tidegate-Token": token_of(self.credential)} if headers is None else headers
        body = {"request_id": request_id or str(uuid4())} | given
        url = f"/tidegate/api/v1/pipelines/{PIPELINE}/{path}"
        return self.get(url, token=self.credential, method="POST", headers=told, json=body)

    def audit(self, query: str = "") -> dict[str, Any]:
        document: dict[str, Any] = self.get(
            f"/tidegate/api/v1/pipelines/{PIPELINE}/audit{query}", token=self.credential
        ).json()
        return document


@pytest.fixture
def hands(get: Callable[..., httpx.Response], token: Token) -> Hands:
    return Hands(get, token("admin"))


@pytest.fixture
def shown(store: PostgresCheckpointStore) -> ShownPipeline:
    """One completed checkpoint."""
    pipeline = ShownPipeline(store, MemoryStorage(), hold_for="2 h", ago=timedelta(minutes=5))
    pipeline.complete()
    return pipeline


@pytest.fixture
def nowhere() -> Iterator[AllOperations]:
    """On a store that cannot be reached."""
    store = PostgresCheckpointStore(connect(make_url("postgresql+psycopg2://nobody@127.0.0.1:1/none")))
    yield AllOperations(store, MemoryStorage(), SystemClock(), store.close)
    store.close()


@pytest.fixture
def act(hands: Hands) -> Act:
    """Somebody does something, twice with one id."""

    def twice(path: str, **given: Any) -> tuple[int, str]:
        request_id = str(uuid4())
        first, second = (hands.do(path, request_id, **given) for _ in range(2))
        assert (first.status_code, first.json()) == (second.status_code, second.json())
        assert first.json()["request_id"] == request_id
        return said(first)

    return twice


def said(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.json()["sentence"]


def test_each_gesture_is_done_once_and_is_on_record_with_who_asked(hands: Hands, act: Act, shown) -> None:
    savepoint = shown.complete(request="by-hand", kind=CheckpointKind.SAVEPOINT)
    held = shown.hold()
    assert act(f"checkpoints/{held}/approve", comment="It was a strike.")[0] == 200
    shown.finish(held)
    rejected = shown.hold()
    assert act(f"checkpoints/{rejected}/reject")[0] == 200
    running = shown.trigger()
    code, sentence = act(f"checkpoints/{running}/abort")
    assert (code, sentence.startswith(f"Checkpoint {running} of pipeline {PIPELINE} is FAILED")) == (200, True)
    assert act("suspend") == (200, f"Pipeline {PIPELINE} is SUSPENDED.")
    assert act("resume") == (200, f"Pipeline {PIPELINE} is RUNNING.")
    renamed = act(f"checkpoints/{savepoint}/rename", name="before", note="for the auditors")
    assert renamed == (200, f"Savepoint {savepoint} of pipeline {PIPELINE} is called before.")
    assert act(f"checkpoints/{savepoint}/dispose") == (200, f"Savepoint before of pipeline {PIPELINE} was disposed of.")
    with shown.store.transaction(PIPELINE) as tx:
        tx.begin_region(SystemClock().now())
    for kind in ("CHECKPOINT", "SAVEPOINT"):
        assert act("requests", kind=kind, **({"name": "x"} if kind == "SAVEPOINT" else {}))[0] == 200
    assert act("cancel")[0] == 409  # the sinks wait for what the region was asked for? no: see its sentence

    audited = hands.audit()["audit"]
    assert len({one["request_id"] for one in audited}) == len(audited)
