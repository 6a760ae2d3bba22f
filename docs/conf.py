"""Builds the site of these pages (`make docs`). They can be read without it: what only a site needs is added here."""

import re
from pathlib import Path

from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

HERE = Path(__file__).parent

project = "Tidegate"
extensions = ["myst_parser"]
root_doc = "README"
exclude_patterns = ["schemas"]
language = "en"
smartquotes = False
nitpicky = True
myst_heading_anchors = 6

html_theme = "furo"
html_title = "Tidegate"
html_copy_source = False
html_show_copyright = False

_COMMENT = re.compile(r"<!--.*?-->\n*", re.DOTALL)
_LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])+)\]\((?!https?:|#)([^)\s#]+)(#[^)\s]*)?\)")
_FENCED = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)


def _adapt(_app: Sphinx, page: str, content: list[str]) -> None:
    """Hide blocks for tests, turn links to code into text with the path as a tooltip, and add the navigation."""
    folder = (HERE / page).parent
    parts = _FENCED.split(_COMMENT.sub("", content[0]))
    shown = [part if part.startswith("```") else _LINK.sub(lambda link: _linked(link, folder), part) for part in parts]
    content[0] = "".join(shown) + "".join(_navigation(page))
    if page.startswith("decisions/") and not page.endswith("README"):
        content[0] = (
            f"---\norphan: true\n---\n\n{content[0]}"  # their index is enough: each entry of the navigation costs time
        )


def _linked(link: re.Match[str], folder: Path) -> str:
    target = (folder / link[2]).resolve()
    if target.is_relative_to(HERE) and target.is_file():
        return link[0]
    return f'<span title="{target.relative_to(HERE.parent)}">{link[1]}</span>'


def _navigation(page: str) -> list[str]:
    """The pages that an index links to, by its headings."""
    if not page.endswith("README") or page.startswith("decisions/"):
        return []
    parts = re.split(r"^## (.*)$", (HERE / f"{page}.md").read_text(), flags=re.MULTILINE)
    trees = []
    for heading, text in zip(parts[1::2], parts[2::2], strict=True):
        linked = re.findall(r"\]\(([\w./-]+)\.md\)", f"[]{heading} {text}")
        caption = f":caption: {heading}\n" if page == root_doc else ""
        trees.append(f"\n```{{toctree}}\n:hidden:\n{caption}\n" + "\n".join(dict.fromkeys(linked)) + "\n```\n")
    return trees


def _open_at_the_index(app: Sphinx, error: Exception | None) -> None:
    if error is None and app.builder.format == "html":
        start = f'<!doctype html><meta http-equiv="refresh" content="0; url={root_doc}.html">\n'
        (app.outdir / "index.html").write_text(start)


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.add_lexer("mermaid", TextLexer)
    app.connect("source-read", _adapt)
    app.connect("build-finished", _open_at_the_index)
