"""What people do by hand over HTTP: done once, refused with a sentence, on record with who asked, and only from our
own pages and from programs."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from hands import PIPELINE, Hands, said
from shown_pipelines import ShownPipeline
from sqlalchemy.engine import make_url
from worlds import MemoryStorage

from tidegate.clock import SystemClock
from tidegate.coordination.all_operations import AllOperations
from tidegate.postgres.engine import connect
from tidegate.postgres.store import PostgresCheckpointStore
from tidegate.protocol.facts.records import CheckpointKind
from tidegate.ui.asking import asking_of
from tidegate.ui.same_site import token_of

Act = Callable[..., tuple[int, str]]
Token = Callable[[str | None], str]


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


def put_on_storage(shown: ShownPipeline, root: Path) -> None:
    """What was written in memory, to where the app looks."""
    for path, content in shown.storage.files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content)


def test_each_action_is_done_once_and_is_on_record_with_who_asked(
    hands: Hands, act: Act, shown: ShownPipeline, tmp_path: Path
) -> None:
    savepoint = shown.complete(request="by-hand", kind=CheckpointKind.SAVEPOINT)
    held = shown.hold()
    assert act(f"checkpoints/{held}/approve", comment="It was a strike.")[0] == 200
    shown.coordinator.finalize(held)
    shown.coordinator.notify(held)
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
    put_on_storage(shown, tmp_path / "checkpoints")
    assert act("cancel") == (200, f"Pipeline {PIPELINE} is CANCELLED.")

    audited = hands.audit()["audit"]
    kinds = ["APPROVE", "REJECT", "ABORT", "SUSPEND", "RESUME", "RENAME", "DISPOSE", "CANCEL"]
    assert [one["kind"] for one in audited] == kinds[::-1]
    assert {one["status"] for one in audited} == {"DONE"}
    assert {tuple(one["actor"].values()) for one in audited} == {("AIRFLOW_USER", "somebody", "127.0.0.1")}
    assert audited[-1]["details"] == {"checkpoint": held, "comment": "It was a strike."}
    assert audited[2]["details"] == {"savepoint": str(savepoint), "name": "before", "note": "for the auditors"}


@pytest.mark.parametrize("kind", ["CHECKPOINT", "SAVEPOINT", "STOP", "DRAIN"])
def test_a_continuous_region_is_asked_for_each_kind_once(hands: Hands, act: Act, shown, kind: str) -> None:
    with shown.store.transaction(PIPELINE) as tx:
        tx.begin_region(SystemClock().now())
    label = {} if kind == "CHECKPOINT" else {"name": "x", "note": "y"}
    assert (act("drain", **label) if kind == "DRAIN" else act("requests", kind=kind, **label))[0] == 200
    with shown.store.transaction(PIPELINE) as tx:
        (request,) = tx.requests()
    assert (request.name, request.drain) == (label.get("name"), kind == "DRAIN")
    assert [one["kind"] for one in hands.audit()["audit"]] == [kind]


def test_what_is_refused_changes_nothing_says_why_and_is_on_record(hands: Hands, act: Act, shown) -> None:
    for path, given, why in (
        ("checkpoints/1/abort", {}, "can no longer be aborted"),
        ("checkpoints/1/approve", {"comment": "yes"}, "Checkpoint 1"),
        ("checkpoints/1/reject", {}, "Checkpoint 1"),
        ("checkpoints/99/abort", {}, "99"),
        ("checkpoints/1/dispose", {}, "has no savepoint '1'"),
        ("checkpoints/1/rename", {"name": "x"}, "has no savepoint '1'"),
        ("requests", {"kind": "SAVEPOINT"}, "has no continuous region"),
        ("drain", {}, "has no continuous region"),
    ):
        code, sentence = act(path, **given)
        assert (code, why in sentence) == (409, True), sentence
    assert {one["status"] for one in hands.audit()["audit"]} == {"REFUSED"}
    assert len(hands.audit()["audit"]) == 8
    assert [record.status for record in shown.store.history(PIPELINE, 9)] == ["COMPLETED"]


def test_an_id_of_another_action_is_refused(hands: Hands, shown) -> None:
    request_id = str(uuid4())
    assert hands.do("suspend", request_id).status_code == 200
    code, sentence = said(hands.do("resume", request_id))
    assert (code, "is of another request: SUSPEND" in sentence) == (409, True)
    assert shown.store.pipeline(PIPELINE).status == "SUSPENDED"


def test_what_is_not_said_right_reaches_no_pipeline(hands: Hands, shown) -> None:
    for path, given in (
        ("suspend", {"request_id": "not a UUID"}),
        ("suspend", {"also": "this"}),
        ("requests", {"kind": "DRAIN"}),
        ("requests", {}),
        ("checkpoints/1/approve", {"comment": "x" * 2001}),
        ("checkpoints/0/abort", {}),
    ):
        assert hands.do(path, **{"request_id": str(uuid4())} | given).status_code == 422, path
    assert hands.audit()["audit"] == []


def test_without_an_answer_of_the_database_one_asks_again_with_the_same_id(
    hands: Hands, plugin, shown, nowhere: AllOperations, monkeypatch
) -> None:
    asking, request_id = asking_of(plugin._app()), str(uuid4())
    with monkeypatch.context() as lost:
        lost.setattr(asking, "_operations", nowhere)
        unknown = hands.do("suspend", request_id)
    assert unknown.status_code == 503
    assert unknown.json()["errors"]
    assert said(hands.do("suspend", request_id)) == (200, f"Pipeline {PIPELINE} is SUSPENDED.")
    assert [one["request_id"] for one in hands.audit()["audit"]] == [request_id]


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Tidegate-Token": ""},
        {"Tidegate-Token": "1"},
        {"Tidegate-Token": token_of("another login")},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://airflow:8081"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "none"},
    ],
    ids=str,
)
def test_what_does_not_come_from_here_is_forbidden(hands: Hands, shown, headers: dict[str, str]) -> None:
    own = {} if not headers or "Tidegate-Token" in headers else {"Tidegate-Token": token_of(hands.credential)}
    for path in ("suspend", "cancel"):
        assert hands.do(path, headers=own | headers).status_code == 403
    assert shown.store.pipeline(PIPELINE).status == "RUNNING"
    assert hands.audit()["audit"] == []


def test_our_own_pages_may_ask(hands: Hands, shown, monkeypatch) -> None:
    """As browsers say it with TLS, and without; there a proxy may hand on another host than the browser's."""
    own = {"Tidegate-Token": hands.get("/tidegate/api/v1/token", token=hands.credential).json()["token"]}
    assert hands.do("suspend", headers=own | {"Origin": "http://airflow"}).status_code == 200
    proxied = {"Sec-Fetch-Site": "same-origin", "Origin": "https://outside.example"}
    assert hands.do("resume", headers=own | proxied).status_code == 200
    outside = own | {"Origin": "http://outside.example"}
    assert hands.do("suspend", headers=outside).status_code == 403
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "http://outside.example/airflow")
    assert hands.do("suspend", headers=outside).status_code == 200
    for other in ("https://outside.example", "http://outside.example:81", "http://evil.example", "null"):
        assert hands.do("resume", headers=own | {"Origin": other}).status_code == 403


def test_the_token_of_a_cookie_is_that_of_its_login(get, token: Token, shown) -> None:
    credential = token("admin")
    told = get("/tidegate/api/v1/token", cookie=credential).json()["token"]
    assert credential not in told
    assert told != get("/tidegate/api/v1/token", cookie=token("user")).json()["token"]
    answer = get(
        f"/tidegate/api/v1/pipelines/{PIPELINE}/suspend", cookie=credential, method="POST",
        headers={"Tidegate-Token": told}, json={"request_id": str(uuid4())},
    )  # fmt: skip
    assert answer.status_code == 200


def test_the_audit_comes_in_pages(hands: Hands, shown) -> None:
    for number in range(5):
        hands.do("resume" if number % 2 else "suspend")
    first = hands.audit("?limit=2")
    second = hands.audit(f"?limit=2&before={first['next_before']}")
    third = hands.audit(f"?limit=2&before={second['next_before']}")
    found = [*first["audit"], *second["audit"], *third["audit"]]
    assert found == hands.audit()["audit"]
    assert third["next_before"] is None
