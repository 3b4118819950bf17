"""Every Python block in the README and the docs runs."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(), re.S)


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p)], ids=lambda page: page.name)
def test_the_code_on_a_page_runs_from_top_to_bottom(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for number, block in enumerate(blocks(page), start=1):
        exec(compile(block, f"{page.name}, block {number}", "exec"), names)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page):
    targets = re.findall(r"\]\(([^)#:]+)\)", page.read_text())
    missing = [target for target in targets if not (page.parent / target).exists()]
    assert missing == []
