"""Browsers that follow the same page share an answer; those with other rights do not, and no answer is of the past."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpx
import pytest
from fastapi.responses import Response
from routes import example_of
from sqlalchemy import event

from tidegate.ui.schedules import NoSchedules, ReadableRuns
from tidegate.ui.shared import LASTS, SharedAnswers

NO_SCHEDULES = NoSchedules()
LIVE = {"Tidegate-Live": "1"}
BROWSERS = 20


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


class Made(list):
    """What was made, one after the other, and a way to ask."""

    def __init__(self):
        self.clock = Clock()
        self.shared = SharedAnswers(self.clock)

    def get(self, key="page", moment=1):
        return self.shared.get(key, moment, self._make).body

    def _make(self):
        self.append(len(self))
        return Response(str(len(self)))


def test_an_answer_serves_until_something_changes_or_a_second_is_over():
    made = Made()
    assert [made.get(), made.get()] == [b"1", b"1"]
    assert made.get(key="another page") == b"2"
    assert [made.get(moment=2), made.get(moment=2)] == [b"3", b"3"]
    made.clock.now += LASTS
    assert made.get(moment=2) == b"4"


def test_who_asks_meanwhile_waits_for_the_same_and_gets_the_same_error():
    shared, begun, over = SharedAnswers(), threading.Event(), threading.Event()

    def make():
        begun.set()
        over.wait(20)
        raise OSError("no answer")

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(shared.get, "page", 1, make)
        begun.wait(20)
        second = pool.submit(shared.get, "page", 1, pytest.fail)
        over.set()
        assert [str(one.exception(20)) for one in (first, second)] == ["no answer"] * 2


@pytest.fixture
def follow(site):
    """Asks for a page as so many browsers at once that follow it, as the users of these cookies."""

    def follow_(path, *cookies, headers=LIVE, of="text"):
        def ask(cookie):
            return httpx.get(site.url(path), headers=headers, cookies={"_token": cookie}, timeout=60)

        with ThreadPoolExecutor(len(cookies)) as pool:
            return [getattr(answer, of) for answer in pool.map(ask, cookies)]

    return follow_


@pytest.fixture
def listening(site):
    """While somebody hears of changes."""
    with httpx.stream("GET", site.url("api/v1/events"), cookies={"_token": site.cookie}, timeout=60) as response:
        lines = response.iter_lines()  # which ends the answer when it is forgotten
        assert next(lines) == "event: back"
        yield


@contextmanager
def counted(engine):
    """The statements that are sent meanwhile."""
    sent = []
    note = lambda *given: sent.append(given[2])  # noqa: E731
    event.listen(engine, "before_cursor_execute", note)
    yield sent
    event.remove(engine, "before_cursor_execute", note)


def test_many_browsers_cost_what_one_does_and_see_what_was_committed(site, follow, listening):
    orders, everybody = site.shown["orders"], [site.cookie] * BROWSERS
    engine = site.readings._engine
    with counted(engine) as alone:
        follow("pipelines/orders", site.cookie)
    completed = orders.complete()
    with counted(engine) as together:
        answers = follow("pipelines/orders", *everybody)
    assert all(f'/checkpoints/{completed}"' in answer for answer in answers)
    assert len(set(answers)) < BROWSERS / 2
    assert len(together) < len(alone) * BROWSERS / 2


def test_rights_are_looked_at_for_each_and_shared_is_only_what_all_may_see(site, follow, listening, signed):
    viewer, nobody = signed("viewer"), "no token"
    mine, theirs, none = follow("pipelines/orders", site.cookie, viewer, nobody)
    assert "Suspend …" in mine
    assert "Suspend …" not in theirs
    assert "require the right to edit" in theirs
    assert "orders" not in none


def test_no_page_that_others_follow_is_shown_to_whom_it_is_not_for(site, follow, listening, signed, monkeypatch):
    from airflow.api_fastapi.app import get_auth_manager

    pages = [example_of(route).lstrip("/") for route in shared_pages()]
    assert len(pages) > 12
    known = [page for page in pages if follow(page, site.cookie, of="status_code") == [200]]
    assert len(known) > 10
    monkeypatch.setattr("tidegate.ui.shared.LASTS", 60.0)
    for page in known:
        follow(page, site.cookie)
    monkeypatch.setattr(get_auth_manager(), "is_authorized_dag", lambda **_: False)
    for page in pages:
        assert follow(page, site.cookie, signed("viewer"), "no token", of="status_code") == [403, 403, 401], page


def shared_pages():
    from tidegate.ui import checkpoint_pages, dag_pages, pipeline_pages

    return [route for pages in (pipeline_pages, checkpoint_pages, dag_pages) for route in pages.routes.routes]


def test_who_may_read_other_dags_gets_an_answer_of_their_own():
    one, other = (ReadableRuns(NO_SCHEDULES, frozenset({dag})) for dag in ("mine", "theirs"))
    assert one == ReadableRuns(NO_SCHEDULES, frozenset({"mine"}))
    assert len({one, other}) == 2


def test_who_opens_a_page_gets_a_new_one(site, follow, listening):
    first, second = (follow("pipelines/orders", site.cookie, headers={})[0] for _ in range(2))
    with counted(site.readings._engine) as sent:
        follow("pipelines/orders", site.cookie, headers={})
    assert first
    assert second
    assert len(sent) > 10
