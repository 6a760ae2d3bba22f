"""What every page is sent with, and what it is made of."""

import re
from pathlib import Path

import httpx
import pytest

import tidegate.ui
from tidegate.ui import static_files

TEMPLATES = sorted((Path(tidegate.ui.__file__).parent / "templates").glob("*.html"))


@pytest.fixture
def ask(site):
    def get(path, **options):
        return httpx.get(site.url(path), cookies={"_token": site.cookie}, timeout=60, **options)

    return get


def test_no_page_may_run_or_load_what_is_not_its_own_nor_be_framed_elsewhere(site, ask):
    for name, path in site.pages().items():
        answer = ask(path)
        assert answer.status_code == 200, name
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self';" in policy
        assert "style-src 'self';" in policy
        assert "frame-ancestors 'self'" in policy
        assert "unsafe" not in policy
        assert answer.headers["cache-control"] == "private, no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("template", TEMPLATES, ids=[path.name for path in TEMPLATES])
def test_no_template_turns_escaping_off_or_needs_what_the_policy_forbids(template):
    text = template.read_text()
    assert not re.search(r"\|\s*safe\b|Markup|autoescape", text)
    assert not re.search(r"\sstyle=|\son[a-z]+=|javascript:|<style|<script(?![^>]*\bsrc=)", text)
    assert not re.search(r"=\{\{", text)  # an attribute without quotes
    assert not re.search(r"https?://", text)


def test_scripts_and_style_sheets_may_be_kept_while_they_are_the_same(site, ask):
    page = ask("").text
    found = set(re.findall(r'(?:src|href)="/tidegate/(static/[^"]+)"', page))
    assert len(found) >= 7
    for path in found:
        answer = ask(path)
        assert (answer.status_code, answer.headers["cache-control"]) == (200, "private, max-age=31536000, immutable")
    older = ask("static/0123456789abcdef/live.js")
    assert (older.status_code, older.headers["cache-control"]) == (200, "private, no-cache")
    for path in ("static/x/%2e%2e/app.py", "static/x/..%2fapp.py", "static/x/vendor/vendored.json"):
        assert ask(path).status_code == 404, path


def test_what_is_wrong_is_said_on_a_page_and_to_programs_as_json(site, ask):
    missing = ask("pipelines/nobody")
    assert missing.status_code == 404
    assert "There is no pipeline &#39;nobody&#39;" in missing.text
    assert ask("pipelines/flight_delays/checkpoints/999").status_code == 404
    assert ask("pipelines/flight_delays/checkpoints/x").status_code == 422
    assert ask("?after=nonsense").status_code == 400
    assert ask("api/v1/pipelines/nobody").json()["errors"]
    anonymous = httpx.get(site.url("pipelines/flight_delays"))
    assert anonymous.status_code == 401
    assert "Log in to Airflow" in anonymous.text
    assert httpx.get(site.url("api/v1/pipelines")).json() == {
        "errors": ["Not authenticated. Log in to Airflow, then load this page again."]
    }


def test_the_version_of_the_files_follows_their_content():
    assert re.fullmatch(r"[0-9a-f]{16}", static_files.version())
    assert "vendor/htmx-4.0.1.min.js" in static_files.files()
