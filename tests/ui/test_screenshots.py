"""Screenshots for the docs, taken by `make screenshots` only."""

import os
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif("SCREENSHOTS" not in os.environ, reason="SCREENSHOTS names no directory to write to"),
]

#: Name, page, scheme and width.
SCREENSHOTS = [
    ("pipelines", "pipelines", "light", 1280),
    ("checkpoint", "savepoint, opened", "light", 1280),
    ("failed", "failed checkpoint", "light", 1280),
    ("plan", "plan", "light", 1280),
    ("summary", "summary", "dark", 1280),
]


@pytest.mark.parametrize(("name", "of", "scheme", "width"), SCREENSHOTS, ids=[row[0] for row in SCREENSHOTS])
def test_a_screenshot_is_taken(site, open_page, name, of, scheme, width):
    directory = Path(os.environ["SCREENSHOTS"])
    directory.mkdir(parents=True, exist_ok=True)
    page = open_page(site.pages()[of], scheme=scheme, width=width).page
    page.locator("#live[data-state=live]").wait_for()
    if page.locator(".chart").count():
        page.locator(".chart canvas").first.wait_for()
    page.screenshot(path=directory / f"{name}.png", full_page=True)
