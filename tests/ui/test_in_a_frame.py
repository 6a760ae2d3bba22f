"""The pages as Airflow shows them: in a frame that may not open windows, ask, or lead anywhere else."""

import pytest

pytestmark = pytest.mark.browser


@pytest.fixture
def framed(site, open_page):
    def show(path="", theme="light", scheme="light"):
        watched = open_page(scheme=scheme)
        watched.page.goto(f"{site.server.address}/host?theme={theme}&path=/tidegate/{path}")
        frame = watched.page.frames[1]
        frame.locator("#live[data-state=live]").wait_for()
        return watched.page, frame

    return show


def scheme_of(frame):
    return frame.evaluate("getComputedStyle(document.documentElement).colorScheme")


def test_light_or_dark_is_what_the_page_around_it_shows_whatever_the_system_says(framed):
    page, frame = framed(theme="dark", scheme="light")
    assert scheme_of(frame) == "dark"
    page.evaluate("document.documentElement.className = 'light'")
    frame.locator("html[data-theme=light]").wait_for()
    assert scheme_of(frame) == "light"


@pytest.mark.long
def test_without_a_frame_it_is_what_airflow_has_stored(site, open_page):
    page = open_page(scheme="light").page
    assert scheme_of(page) == "light dark"
    page.evaluate("localStorage.setItem('theme', 'dark')")
    page.reload()
    assert scheme_of(page) == "dark"
    page.evaluate("localStorage.setItem('theme', 'system')")
    page.reload()
    assert scheme_of(page) == "light dark"


@pytest.mark.long
def test_charts_are_drawn_anew_in_the_other_colours(framed):
    page, frame = framed("pipelines/flight_delays/summary")
    drawn = "document.querySelector('.chart canvas').toDataURL()"
    frame.locator(".chart canvas").first.wait_for()
    light = frame.evaluate(drawn)
    page.evaluate("document.documentElement.className = 'dark'")
    frame.wait_for_function(f"{drawn} !== {light!r}")


def test_a_link_to_airflow_is_followed_by_the_page_around_it(site, framed):
    page, frame = framed("pipelines/flight_delays")
    with page.expect_navigation():
        frame.get_by_role("link", name="every hour").first.click()
    assert page.url == f"{site.server.address}/dags/every%20hour"


@pytest.mark.long
def test_another_link_stays_in_the_frame(site, framed):
    page, frame = framed()
    frame.locator("tbody th a").first.click()
    frame.wait_for_url(site.url("pipelines/flight_delays"))
    assert "/host" in page.url
