"""One checkpoint's report as HTML: Great Expectations' result tables (its Data Docs renderers) in our own page.

Great Expectations' page loads styles and scripts from eleven public servers, shows values from the data unescaped, and
copies 4 MB of images for every site. This page has no scripts, needs no network and no second file, and escapes
everything that comes from the data.
"""

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

from tidegate.protocol.facts.records import CheckpointRecord, Verdict
from tidegate.quality.importing import load_great_expectations
from tidegate.quality.suite_validation import Finding


@dataclass(frozen=True, slots=True)
class Section:
    """One target in a report: its verdict and, if it was validated, its number of rows and its findings."""

    verdict: Verdict
    rows: int = 0
    findings: tuple[Finding, ...] = ()


def render(checkpoint: CheckpointRecord, sections: Sequence[Section], hold_for: timedelta | None = None) -> str:
    """Return the whole page. It is the same for the same checkpoint and sections, except for the ids of its elements.

    `hold_for` is how long the checkpoint waits for manual approval because of these verdicts.
    """
    load_great_expectations()
    targets = [
        {
            "verdict": section.verdict,
            "rows": section.rows,
            "table": _table(section),
            "failing": _failing(section.verdict),
        }
        for section in sections
    ]
    page: str = (
        _view()
        .env.get_template("checkpoint.html")
        .render(checkpoint=checkpoint, targets=targets, hold_for=None if hold_for is None else _shown(hold_for))
    )
    return page


def _shown(wait: timedelta) -> str:
    hours = wait / timedelta(hours=1)
    return f"{hours:g} h" if hours >= 1 else f"{wait / timedelta(minutes=1):g} min"


def _table(section: Section) -> dict[str, Any] | None:
    """Return status, expectation in words and observed value, in the form of Great Expectations' renderers."""
    from great_expectations.render.renderer.content_block.validation_results_table_content_block import (
        ValidationResultsTableContentBlockRenderer,
    )

    if not section.findings:
        return None
    pairs = zip(section.findings, section.verdict.results, strict=True)
    results = [_renderable(finding, result) for finding, result in pairs if finding.raw is not None]
    if not results:
        return None
    block: Any = ValidationResultsTableContentBlockRenderer.render(results)
    table: dict[str, Any] = block.to_json_dict()
    return table


def _renderable(finding: Finding, result: Mapping[str, Any]) -> Any:
    """Return Great Expectations' result without the parts that its renderers show badly or cannot render."""
    if finding.success is None:
        # Its own text is a traceback with a query plan and local paths.
        finding.raw.exception_info = {
            "raised_exception": True,
            "exception_message": result["error"],
            "exception_traceback": "",
        }
    if "unexpected_percent" not in finding.found:
        # Expectations about distinct values have only a count, and the renderers raise without a percentage.
        unrenderable = ("unexpected_count", "partial_unexpected_list")
        finding.raw.result = {key: value for key, value in finding.found.items() if key not in unrenderable}
    return finding.raw


def _failing(verdict: Verdict) -> list[dict[str, Any]]:
    """Return the sampled rows of each failed expectation, or its sampled values where it has no rows."""
    tables = []
    for result in verdict.results:
        rows = result["unexpected_rows"] or [{"value": value} for value in result["unexpected_samples"]]
        if result["success"] is False and rows:
            tables.append({"result": result, "columns": list(rows[0]), "rows": rows})
    return tables


@cache
def _view() -> Any:
    from great_expectations.render.view.view import DefaultJinjaPageView
    from jinja2 import pass_context

    class EscapingView(DefaultJinjaPageView):
        """A page view that escapes whole table cells. Great Expectations escapes only the parameters of its
        sentences."""

        @pass_context
        def render_content_block(self, jinja_context: Any, content_block: Any, *args: Any, **kwargs: Any) -> Any:
            if isinstance(content_block, list):
                return "".join(self.render_content_block(jinja_context, block, **kwargs) for block in content_block)
            if isinstance(content_block, dict) and "content_block_type" in content_block:
                return super().render_content_block(jinja_context, content_block, *args, **kwargs)
            return "" if content_block is None else html.escape(str(content_block))

    return EscapingView(custom_views_directory=str(Path(__file__).parent))
