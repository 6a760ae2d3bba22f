"""A real Chromium: that of the machine, driven by Playwright. Where there is none, tests say that they were skipped."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
AXE = Path(__file__).parents[1] / "ui" / "vendor" / "axe-core-4.14.1.min.js"


@contextmanager
def chromium() -> Iterator[Any]:
    executable = next(filter(None, map(shutil.which, NAMES)), None)
    if executable is None:
        pytest.skip(f"No browser on the PATH: none of {', '.join(NAMES)}. On Debian: apt install chromium.")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # Tests run as root in containers, where Chromium has no sandbox of its own.
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        yield browser
        browser.close()


class Watched:
    """A page of a browser, and what went wrong on it: errors of scripts, and what its policy has forbidden."""

    def __init__(self, context: Any) -> None:
        self.page = context.new_page()
        self.wrong: list[str] = []
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("console", lambda message: self._hear(message))

    def _hear(self, message: Any) -> None:
        if message.type == "error":
            self.wrong.append(message.text)

    def serious(self) -> list[str]:
        """What axe finds that keeps somebody from using the page."""
        self.page.evaluate(AXE.read_text())
        found = self.page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        return [
            f"{one['id']}: {one['help']}: {json.dumps([node['html'][:160] for node in one['nodes'][:3]])}"
            for one in found["violations"]
            if one["impact"] in ("serious", "critical")
        ]

    def is_wider_than_the_window(self) -> bool:
        return bool(self.page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth"))
