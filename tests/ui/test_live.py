"""Pages follow what is committed: within a second, over one connection for all tabs; and they say when they cannot."""

import re
import time
from datetime import UTC, datetime
from operator import itemgetter

import pytest

from tidegate.protocol.facts.records import SubtaskId

pytestmark = pytest.mark.browser


def wait_live(watched):
    watched.page.locator("#live[data-state=live]").wait_for()


#: Notes when the page first has an element, by the clock that the test has, too.
APPEARS = """([selector, text]) => {
  const is = () => [...document.querySelectorAll(selector)].some((one) => one.textContent.includes(text));
  window.appeared = new Promise((resolve, reject) => {
    setTimeout(() => reject(new Error("it did not appear")), 20000);
    const look = () => is() && (seen.disconnect(), resolve(Date.now() / 1000));
    const seen = new MutationObserver(look);
    seen.observe(document.body, {childList: true, characterData: true, subtree: true});
  });
}"""


def seconds_to_show(page, step, shown):
    """How long after the commit of the step there was such an element on the page, with such a text."""
    assert not any(shown[1] in text for text in page.locator(shown[0]).all_inner_texts()), shown
    page.evaluate(APPEARS, shown)
    step()
    committed = time.time()
    return page.evaluate("window.appeared") - committed


@pytest.fixture
def orders(site):
    """With its clock at the present: what it triggers is not past its deadline already."""
    shown = site.shown["orders"]
    shown.clock.time = max(shown.clock.time, datetime.now(UTC))
    return shown


def watch_one(orders, open_page):
    """How long each phase of a checkpoint took to be shown."""
    checkpoint_id = orders.trigger()
    watched = open_page(f"pipelines/orders/checkpoints/{checkpoint_id}?operator=carriers")
    page = watched.page
    wait_live(watched)
    page.evaluate("window.stayed = document.querySelector('h2')")
    steps = [
        (lambda: orders.snapshot(checkpoint_id, without=[SubtaskId("carriers", 3)]), (".figures dd", "18/19")),
        (lambda: orders.snapshot(checkpoint_id), (".pill", "IN_PROGRESS (acknowledged)")),
        (lambda: orders.judge(checkpoint_id), (".pill", "IN_PROGRESS (validated)")),
        (lambda: orders.coordinator.finalize(checkpoint_id), (".pill", "COMPLETED")),
        (lambda: orders.coordinator.notify(checkpoint_id), (".phases li", "Notified")),
    ]
    took = [(shown[1], seconds_to_show(page, step, shown)) for step, shown in steps]
    assert page.evaluate("window.stayed.isConnected")  # only what differs was replaced
    assert page.locator("#subtask-3").inner_text().startswith("3\t")
    assert watched.wrong == []
    return took


def test_each_phase_is_shown_within_a_second_of_its_commit(site, orders, open_page):
    """Where something else has the processor meanwhile, the second checkpoint shows it: whatever is slow by itself is
    slow both times."""
    took = watch_one(orders, open_page)
    if max(map(itemgetter(1), took)) >= 1.0:
        took = [min(each, key=itemgetter(1)) for each in zip(took, watch_one(orders, open_page), strict=True)]
    assert max(map(itemgetter(1), took)) < 1.0, took


def test_what_is_opened_focused_and_scrolled_stays_as_it_is(site, orders, open_page):
    failed = orders.fail_validation()
    page = open_page(f"pipelines/orders/checkpoints/{failed}", width=400).page
    page.locator("#live[data-state=live]").wait_for()
    page.get_by_text("5 rows").click()
    page.get_by_role("link", name="▸ routes").focus()
    page.evaluate("scrollTo(0, 400); document.querySelector('#verdicts .scroll').scrollLeft = 60")
    before = page.locator("a[rel=next]").count()
    assert before == 0
    orders.complete()
    page.locator("a[rel=next]").wait_for()
    assert page.locator("details[open]").count() == 1
    assert page.evaluate("document.activeElement.textContent").startswith("▸ routes")
    assert page.evaluate("document.querySelector('#verdicts .scroll').scrollLeft") == 60
    assert page.evaluate("scrollY") > 300


def test_the_list_follows_every_pipeline_and_a_page_only_its_own(site, orders, open_page):
    listed = open_page()
    other = open_page("pipelines/flight_delays", also=listed)
    for one in (listed, other):
        wait_live(one)
    time.sleep(1)
    asked = site.server.asked.count("/tidegate/pipelines/flight_delays")
    completed = orders.complete()
    listed.page.bring_to_front()
    listed.page.locator("tbody tr", has_text="orders").get_by_role("link", name=str(completed), exact=True).wait_for()
    assert site.server.asked.count("/tidegate/pipelines/flight_delays") == asked


@pytest.mark.long
def test_twelve_tabs_share_one_connection(site, orders, open_page):
    """A browser has six of them to a server: with one each, the seventh tab would never load."""
    before = site.server.asked.count("/tidegate/api/v1/events")
    first = open_page("pipelines/orders")
    tabs = [first, *(open_page("pipelines/orders", also=first) for _ in range(11))]
    for tab in tabs:
        wait_live(tab)
    assert site.server.asked.count("/tidegate/api/v1/events") == before + 1
    completed = orders.complete()
    for tab in (tabs[0], tabs[6], tabs[-1]):
        tab.page.bring_to_front()
        tab.page.get_by_role("link", name=str(completed), exact=True).first.wait_for()


def test_a_lost_server_is_said_and_the_page_recovers(site, orders, open_page):
    watched = open_page("pipelines/orders")
    wait_live(watched)
    site.server.stop()
    try:
        watched.page.locator("#live[data-state=lost]").wait_for()
        said = watched.page.locator("#live").inner_text()
        assert re.fullmatch(r"The server does not answer\. The page shows the data of \d\d:\d\d:\d\d\.", said)
        assert watched.page.locator("h1").inner_text() == "orders"
        completed = orders.complete()
    finally:
        site.server.start()
    wait_live(watched)
    watched.page.get_by_role("link", name=str(completed), exact=True).first.wait_for()


@pytest.mark.long
def test_a_lost_database_is_said_and_every_page_recovers_by_itself(site, orders, open_page):
    shown = str(orders.complete())
    watched = open_page("pipelines/orders")
    wait_live(watched)
    with site.without_database():
        watched.page.locator("#live[data-state=lost]").wait_for()
        said = watched.page.locator("#live").inner_text()
        assert re.fullmatch(r"The database does not answer\. The page shows the data of \d\d:\d\d:\d\d\.", said)
        assert watched.page.get_by_role("link", name=shown, exact=True).count() > 0
        opened = open_page("pipelines/orders/history", also=watched)
        assert "reloads itself" in opened.page.locator(".sentence").inner_text()
    wait_live(watched)
    completed = orders.complete()
    watched.page.get_by_role("link", name=str(completed), exact=True).first.wait_for()
    opened.page.bring_to_front()
    opened.page.get_by_role("link", name=str(completed), exact=True).first.wait_for()
    wait_live(opened)


@pytest.mark.long
def test_a_proxy_that_holds_events_back_makes_the_page_ask(site, orders, open_page, monkeypatch):
    monkeypatch.setattr(site.server, "holds_events", True)
    watched = open_page("pipelines/orders")
    watched.page.locator("#live[data-state=polling]").wait_for()
    watched.page.get_by_text("asking every 5 s").wait_for()
    completed = orders.complete()
    watched.page.get_by_role("link", name=str(completed), exact=True).first.wait_for(timeout=12_000)


@pytest.mark.long
def test_who_is_logged_out_meanwhile_is_told(site, orders, open_page):
    watched = open_page("pipelines/orders")
    wait_live(watched)
    watched.page.context.clear_cookies()
    orders.complete()
    watched.page.get_by_text("You are no longer logged in").wait_for()
    assert watched.page.locator("h1").inner_text() == "orders"
