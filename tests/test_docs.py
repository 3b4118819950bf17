"""Every Python block in the README and the docs runs."""

import json
import re
from pathlib import Path

import pytest

import pureward
from pureward.runs.collect import collect
from pureward.runs.config_file import flat, to_json
from pureward.training import presets
from tiny import tiny

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(), re.S)


@pytest.fixture(scope="module")
def datasets(short_episodes, tmp_path_factory) -> Path:
    """What a reader has: `demos` and `rated`, here of a policy that has learned nothing."""
    folder = tmp_path_factory.mktemp("data")
    pureward.train(tiny(folder / "run", env_steps=80))
    for name, stages in (("demos", False), ("rated", True)):
        how_many = {"episodes": 2, "held_out": 5, "failures": 1, "frames": True}
        collect("reach", folder / "run", folder / name, **how_many, stages=stages, device="cpu")
    return folder


@pytest.fixture
def short_runs(monkeypatch, tmp_path):
    """Presets of `reach` that take seconds; the code on the pages stays as it is."""
    small = flat(to_json(tiny(tmp_path, env_steps=96, evaluate_every=0, evaluate_episodes=1)))
    small |= {
        "save_replay": False,
        "reward.batch": 4,
        "reward.network.stage_channels": (4, 4),
        "reward.network.stage_blocks": 0,
        "reward.model.epochs": 1,
    }
    monkeypatch.setitem(presets.PRESETS, "reach", {"fast": {"all": small}})


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p)], ids=lambda page: page.name)
def test_the_code_on_a_page_runs_from_top_to_bottom(
    page, datasets, short_runs, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").symlink_to(datasets)
    names: dict = {}
    for number, block in enumerate(blocks(page), start=1):
        exec(compile(block, f"{page.name}, block {number}", "exec"), names)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page):
    targets = re.findall(r"\]\(([^)#:]+)\)", page.read_text())
    missing = [target for target in targets if not (page.parent / target).exists()]
    assert missing == []


def headings(page: Path) -> set[str]:
    """What a link to a part of a page may name, as GitHub spells it."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_to_a_part_of_a_page_find_its_heading(page):
    links = re.findall(r"\]\(([^)#:]*)#([^)]+)\)", page.read_text())
    named = [((page.parent / file) if file else page, part) for file, part in links]
    missing = [(file.name, part) for file, part in named if part not in headings(file)]
    assert missing == []


def test_the_quick_starts_are_short():
    for block in blocks(ROOT / "README.md"):
        assert len([line for line in block.splitlines() if line.strip()]) < 15


def test_the_tally_of_claims_is_that_of_the_figures():
    figures = (ROOT / "results/paper").glob("*.json")
    outcomes = [c["outcome"] for f in figures for c in json.loads(f.read_text())["claims"]]
    holds, fails, close, missing = (
        outcomes.count(one)
        for one in ("holds", "does not hold", "too close to call", "not measured")
    )
    told = " ".join((ROOT / "results/README.md").read_text().split())
    assert (
        f"Of the {len(outcomes)} claims that these figures ask about {holds} hold, {fails} do not "
        f"hold, {close} are too close to call, {missing} are not measured"
    ) in told
