"""The site of docs/ is built as `make docs` builds it: every page, link and heading that a page names is there."""

import re
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).parents[2]


def test_the_site_is_built_without_a_warning_and_needs_no_network(tmp_path):
    """Build without the theme, whose navigation is half of the work."""
    command = re.findall(r"^docs: .*\n\t@\$\(BIN\)/python (.*)$", (PROJECT / "Makefile").read_text(), re.MULTILINE)[0]
    arguments = [*command.replace(".tidegate/site", str(tmp_path)).split(), "-D", "html_theme=basic"]
    built = subprocess.run([sys.executable, *arguments], cwd=PROJECT, capture_output=True, text=True)
    assert (built.returncode, built.stderr) == (0, "")
    pages = {str(path.relative_to(PROJECT / "docs").with_suffix(".html")) for path in (PROJECT / "docs").rglob("*.md")}
    assert sorted(name for name in pages if not (tmp_path / name).exists()) == []
    assert "restore" in (tmp_path / "searchindex.js").read_text()
    index = (tmp_path / "README.html").read_text()
    assert re.findall(r'<(?:script|link|img)[^>]*(?:src|href)="(?:https?:)?//[^"]*"', index) == []
