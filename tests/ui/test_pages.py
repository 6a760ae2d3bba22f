"""Every page in a real browser: readable light and dark, wide and narrow, by keyboard, and whatever the data says."""

import json
import re

import pytest
from routes import PLAN
from shown_pipelines import HOSTILE
from sizes import later
from store_steps import triggered

pytestmark = pytest.mark.browser

#: The last says of which pages axe looks at each: all, or every third. What it finds depends little on the scheme.
VARIANTS = [("light", 1280, 1), ("dark", 400, 3), later("dark", 400, 1)]


@pytest.mark.parametrize(("scheme", "width", "every"), VARIANTS)
def test_every_page_is_readable_and_nothing_on_it_goes_wrong(site, open_page, scheme, width, every):
    watched = open_page(scheme=scheme, width=width)
    found = {}
    for number, (name, path) in enumerate(site.pages().items()):
        watched.page.goto(site.url(path))
        watched.page.locator("#live[data-state=live]").wait_for()
        found[name] = watched.serious() if number % every == 0 else []
        if watched.is_wider_than_the_window():
            found[name].append("is wider than the window")
        if name == "pipelines":
            found[name] += [each for each in ("12 files", "every hour") if shown_in_window(watched.page, each) != 1]
    assert {name: what for name, what in found.items() if what} == {}
    assert watched.wrong == []


def shown_in_window(page, text):
    """How often it is there to be read, without scrolling to the side."""
    right = page.evaluate("document.documentElement.clientWidth")
    boxes = [one.bounding_box() for one in page.get_by_text(text).all() if one.is_visible()]
    return sum(box["x"] + box["width"] <= right for box in boxes)


def test_the_colours_are_those_of_the_scheme(open_page):
    def background(watched):
        colour = watched.page.evaluate("getComputedStyle(document.body).backgroundColor")
        return sum(map(int, re.findall(r"\d+", colour)[:3]))

    assert background(open_page(scheme="light")) > 700
    assert background(open_page(scheme="dark")) < 150


def test_what_needs_somebody_comes_first(open_page):
    page = open_page().page
    assert page.locator("tbody th > a").all_inner_texts() == ["flight_delays", "returns", "orders"]
    assert "The latest checkpoint failed" in page.locator("tbody tr").first.inner_text()


def test_script_in_names_files_rows_and_messages_is_inert_and_shown_as_it_is(site, open_page):
    watched = open_page()
    page = watched.page
    latest = site.latest("returns")
    opened = ["", "/history", "/summary", "/sources", "/state", "/tables", "/quality", "/configuration"]
    opened += [
        f"/checkpoints/{latest - back}?operator={operator}" for back in (0, 1) for operator in ("flights", "routes")
    ]
    opened += [f"/checkpoints/{latest}/files", f"/checkpoints/{latest - 1}/files", f"/restore-plans/{PLAN}"]
    shown = 0
    for path in opened:
        page.goto(site.url(f"pipelines/returns{path}"))
        page.locator("#live[data-state=live]").wait_for()
        shown += page.inner_text("main").count("<script>document.body.dataset.owned")
        assert page.locator("main script, main img").count() == 0, path
        assert page.evaluate("document.body.dataset.owned") is None, path
        assert "49" not in re.findall(r"onerror=\S+>(\d+)", page.inner_text("main")), path
    assert shown > 20
    assert watched.wrong == []


def test_script_in_the_name_of_a_pipeline_is_inert_and_shown_as_it_is(site, open_page):
    """No definition has such a name; a row may."""
    named = HOSTILE.replace("/", "∕")
    triggered(site.store, pipeline_id=named)
    watched = open_page()
    page = watched.page
    page.get_by_role("link", name=named, exact=True).click()
    page.locator("h1", has_text=named).wait_for()
    tabs = page.get_by_role("navigation", name="About this pipeline").get_by_role("link").all_inner_texts()
    for tab in tabs:
        page.get_by_role("link", name=tab, exact=True).click()
        page.locator("#live[data-state=live]").wait_for()
        assert page.locator("main script, main img").count() == 0, tab
        assert page.evaluate("document.body.dataset.owned") is None, tab
    assert len(tabs) >= 9
    assert watched.wrong == []


def test_what_an_address_says_is_shown_as_text_too(site, open_page):
    watched = open_page("pipelines?x=1")
    for path in (
        "pipelines/%3Cscript%3Edocument.body.dataset.owned%3D1%3C%2Fscript%3E",
        "dags/%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E",
        "?text=%22%3E%3Cscript%3Edocument.body.dataset.owned%3D1%3C/script%3E",
        "pipelines/flight_delays/history?text=%22%3E%3Cimg%20src%3Dx%3E&status=%22%3E&kind=%3Cb%3E",
        "pipelines/flight_delays/state?operator=%22%3E%3Cimg%3E",
    ):
        watched.page.goto(site.url(path))
        assert watched.page.evaluate("document.body.dataset.owned") is None
        assert watched.page.locator("main script, main img, main b").count() == 0, path
    assert [text for text in watched.wrong if "404" not in text] == []


def test_with_the_keyboard_alone_one_gets_from_the_list_to_a_subtask(site, open_page):
    page = open_page().page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to content"

    def go(text):
        for _ in range(80):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.textContent.trim()") == text:
                with page.expect_navigation():
                    page.keyboard.press("Enter")
                return
        raise AssertionError(f"{text} was not reached")

    savepoint = str(site.latest("flight_delays") - 2)
    go("flight_delays")
    go("History")
    go(savepoint)
    go("▸ carriers")
    page.locator("#subtask-3").wait_for()
    assert page.url.endswith(f"/checkpoints/{savepoint}?operator=carriers#operator-3")


def test_a_failed_checkpoint_says_why_and_what_to_do_and_shows_the_rows(site, open_page):
    page = open_page(f"pipelines/flight_delays/checkpoints/{site.latest('flight_delays') - 1}").page
    notice = page.locator(".notice.fails").inner_text()
    assert "did not meet its expectations" in notice
    assert "Correct the data or the expectation" in notice
    page.get_by_text("5 rows").click()
    assert "carrier C3, minutes -3" in page.locator("#verdicts").inner_text()


def test_history_is_filtered_and_turned_page_by_page(site, open_page):
    def ids(page):
        return [int(text) for text in page.locator("tbody td.id a").all_inner_texts()]

    page = open_page("pipelines/flight_delays/history").page
    latest = site.latest("flight_delays")
    assert ids(page) == list(range(latest, 0, -1))
    with page.expect_navigation():
        page.select_option("#status", "FAILED")
    assert ids(page) == [latest - 1]
    page.goto(site.url("pipelines/flight_delays/history?kind=SAVEPOINT"))
    assert ids(page) == [latest - 2]
    page.goto(site.url(f"pipelines/flight_delays/history?before={latest - 4}"))
    assert ids(page)[0] == latest - 5
    page.get_by_text("Newest").click()
    assert ids(page)[0] == latest


def test_metadata_is_downloaded(site, open_page):
    savepoint = site.latest("flight_delays") - 2
    page = open_page(f"pipelines/flight_delays/checkpoints/{savepoint}").page
    with page.expect_download() as download:
        page.get_by_role("link", name="download").click()
    document = json.loads(download.value.path().read_text())
    assert document["checkpoint_id"] == savepoint


def test_charts_are_drawn_of_what_the_page_holds(site, open_page):
    page = open_page("pipelines/flight_delays/summary").page
    page.locator(".chart canvas").first.wait_for()
    assert page.locator(".chart").count() == page.locator(".chart canvas").count() >= 5
    values = json.loads(page.locator(".chart").first.get_attribute("data-values"))
    assert len(values["x"]) == len(values["lines"][0]["values"]) == 8
