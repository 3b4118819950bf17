"""Every Python block in the README and the docs runs, and every command and link in them exists."""

import json
import re
from contextlib import redirect_stdout
from dataclasses import replace
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

import pureward
from pureward import OnlineReward
from pureward.cli import main
from pureward.envs import ENVIRONMENTS
from pureward.envs.tasks import TASKS
from pureward.runs.collect import collect
from pureward.runs.config_file import flat, to_json
from pureward.training import presets
from tiny import tiny

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
OUTSIDE = [*sorted((ROOT / "results").rglob("*.md")), ROOT / "datasets/README.md"]


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def prose(page: Path) -> str:
    return re.sub(r"```.*?```", "", page.read_text(), flags=re.S)


def blocks(page: Path, language: str = "python") -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(), re.S)


@pytest.fixture(scope="module")
def datasets(short_episodes, tmp_path_factory) -> Path:
    """The reader's `data/demos` and `data/rated`, here of a policy that has learned nothing."""
    folder = tmp_path_factory.mktemp("data")
    pureward.train(tiny(folder / "run", env_steps=80))
    for name, stages in (("demos", False), ("rated", True)):
        how_many = {"episodes": 2, "held_out": 5, "failures": 1, "frames": True}
        collect("reach", folder / "run", folder / name, **how_many, stages=stages, device="cpu")
    return folder


@pytest.fixture
def short_runs(monkeypatch, tmp_path):
    """Settings that take seconds, so that the code on the pages needs no change."""
    short = {"env_steps": 48, "warmup_steps": 16, "evaluate_every": 0, "evaluate_episodes": 1}
    small = flat(to_json(tiny(tmp_path, **short)))
    small |= {
        "save_replay": False,
        "reward.batch": 4,
        "reward.network.stage_channels": (2, 2),
        "reward.network.stage_blocks": 0,
        "reward.model.epochs": 1,
    }
    monkeypatch.setitem(presets.PRESETS, "reach", {"fast": {"all": small}})
    for function in (OnlineReward.__init__, pureward.fit):
        config = function.__kwdefaults__["config"]
        network = replace(config.network, stage_channels=(2, 2))
        monkeypatch.setitem(function.__kwdefaults__, "config", replace(config, network=network))


@pytest.fixture
def same_registries():
    """What a page registers is unknown to other tests."""
    registries: tuple[Any, ...] = (TASKS, ENVIRONMENTS, pureward.READERS)
    before = [(registry, dict(registry)) for registry in registries]
    yield
    for registry, rows in before:
        registry.clear()
        registry.update(rows)


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p)], ids=name)
def test_the_code_on_a_page_runs_from_top_to_bottom(
    page, datasets, short_runs, same_registries, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").symlink_to(datasets)
    (tmp_path / "datasets").symlink_to(ROOT / "datasets")
    names: dict = {}
    for number, block in enumerate(blocks(page), start=1):
        exec(compile(block, f"{name(page)}, block {number}", "exec"), names)


def commands(page: Path) -> list[list[str]]:
    """Every call of `pureward` in shell blocks and in the text, as words."""
    shell = "".join(blocks(page, "sh")).replace("\\\n", " ")
    named = re.findall(r"`([^`]*pureward [^`]*)`", prose(page))
    lines = [*shell.splitlines(), *(" ".join(code.split()) for code in named)]
    lines = [line.split("#")[0] for line in lines]
    calls = [line.split("pureward ", 1)[1] for line in lines if "pureward " in line]
    return [call.split() for call in calls if not call.startswith("-")]


def help_of(*words: str) -> str:
    with redirect_stdout(StringIO()) as printed, pytest.raises(SystemExit):
        main([*words, "--help-all" if words[:1] in (("train",), ("expert",)) else "--help"])
    return printed.getvalue()


@cache
def options(verb: str) -> frozenset[str]:
    """The options that a verb's help lists."""
    return frozenset(re.findall(r"--[a-z][\w.-]*", help_of(verb))) | {"--help-all"}


@cache
def all_options() -> frozenset[str]:
    verbs = re.search(r"{(tasks,[\w,]+)}", help_of())
    assert verbs is not None
    of_benchmarks = {"--only"}
    return frozenset(of_benchmarks).union(*map(options, verbs[1].split(",")))


@pytest.mark.parametrize("page", [p for p in PAGES if commands(p)], ids=name)
def test_commands_on_a_page_have_only_options_that_exist(page):
    unknown = [
        (verb, option)
        for verb, *rest in commands(page)
        for option in rest
        if verb != "VERB" and option.startswith("--") and option not in options(verb)
    ]
    assert unknown == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_options_named_in_the_text_exist(page):
    named = re.findall(r"`(--[a-z][\w.-]*)[^`]*`", prose(page))
    assert [one for one in named if not one.endswith(".") and one not in all_options()] == []


@pytest.mark.parametrize("page", [*PAGES, *OUTSIDE], ids=name)
def test_links_between_pages_lead_somewhere(page):
    targets = re.findall(r"\]\(([^)#:]+)\)", prose(page))
    missing = [target for target in targets if not (page.parent / target).is_file()]
    assert missing == [], "a folder is no page of the site"


def headings(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub writes them."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", [*PAGES, *OUTSIDE], ids=name)
def test_links_to_a_part_of_a_page_find_its_heading(page):
    links = re.findall(r"\]\(([^)#:]*)#([^)]+)\)", prose(page))
    named = [((page.parent / file) if file else page, part) for file, part in links]
    missing = [(file.name, part) for file, part in named if part not in headings(file)]
    assert missing == []


def test_the_reference_has_every_public_name():
    text = "".join(page.read_text() for page in (ROOT / "docs/reference").glob("*.md"))
    names = set(pureward.__all__) - {"__version__"}
    assert [one for one in sorted(names) if not re.search(rf"pureward\.{one}\b", text)] == []


def test_the_quick_start_is_short():
    for block in blocks(ROOT / "README.md"):
        assert len([line for line in block.splitlines() if line.strip()]) < 15


def test_the_script_of_all_results_runs_every_sweep():
    script = re.findall(r"[\w-]+", (ROOT / "results/reproduce.sh").read_text())
    for sweep in (ROOT / "results").glob("*.toml"):
        assert sweep.stem in script, f"results/reproduce.sh does not run {sweep.name}"


def test_the_tally_of_claims_is_that_of_the_figures():
    figures = (ROOT / "results/protocol").glob("*.json")
    outcomes = [c["outcome"] for f in figures for c in json.loads(f.read_text())["claims"]]
    holds, fails, close, missing = (
        outcomes.count(one)
        for one in ("holds", "does not hold", "too close to call", "not measured")
    )
    text = " ".join((ROOT / "results/README.md").read_text().split())
    assert (
        f"These figures test {len(outcomes)} claims: {holds} hold, {fails} do not hold, {close} "
        f"are too close to call, {missing} {'is' if missing == 1 else 'are'} not measured"
    ) in text
