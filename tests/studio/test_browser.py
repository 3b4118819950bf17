"""The page in a real browser: drawing, saving, two tabs, a killed server, exact frames."""

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("starlette", reason="needs the extra studio")
sync_api = pytest.importorskip("playwright.sync_api", reason="needs playwright")

import uvicorn  # noqa: E402

import pureward  # noqa: E402
from pureward.data.sketches import sidecar  # noqa: E402
from pureward.runs.collect import collect  # noqa: E402
from pureward.studio.app import make_app  # noqa: E402
from pureward.studio.evidence import Runs  # noqa: E402
from pureward.studio.server import _listen  # noqa: E402
from pureward.studio.source import Source  # noqa: E402
from synthetic import course, write_run  # noqa: E402
from tiny import SMALL_REWARD, tiny  # noqa: E402

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
BROWSER = next(filter(None, map(shutil.which, NAMES)), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="needs a browser: apt-get install chromium")
STEPS = 40


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture(scope="module")
def frames():
    """Three episodes of noise, which no codec with loss would keep."""
    return np.random.default_rng(0).integers(0, 256, (3, STEPS + 1, 64, 64, 3), np.uint8)


@pytest.fixture
def data(tmp_path, frames):
    path = tmp_path / "data.npy"
    np.save(path, frames)
    return path


@contextmanager
def serving(*paths, runs=()):
    """The address of a server in this process."""
    with _listen("127.0.0.1", 0) as listening:
        port = listening.getsockname()[1]
        app = make_app(
            [Source(path) for path in paths],
            Runs(list(runs)) if runs else None,
            token="token",
            host="127.0.0.1",
            port=port,
            annotator="anna",
        )
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{port}/?token=token"
        finally:
            server.should_exit = True
            thread.join(30)


@pytest.fixture
def context(browser):
    """A profile of its own, which reports errors of the page."""
    found = browser.new_context(viewport={"width": 1280, "height": 800})
    found.set_default_timeout(10_000)
    errors: list[str] = []
    found.on("weberror", lambda error: errors.append(str(error.error)))
    yield found
    found.close()
    assert errors == []


def opened(context, address):
    page = context.new_page()
    page.goto(address)
    shown(page, 0)
    return page


def shown(page, frame: int) -> None:
    """Wait until a frame is on the canvas."""
    page.locator(f"#frame[data-frame='{frame}']").wait_for()


def status(page, text: str) -> None:
    page.locator("#status", has_text=re.compile(f"^{text}")).wait_for()


def at(page, frame: float, value: float) -> tuple[float, float]:
    """Where a value of a frame is on the screen, by the sizes in curve.js."""
    box = page.locator("#curve").bounding_box()
    left, right, top, bottom, pad, border = 34, 12, 22, 24, 8, 1
    width = box["width"] - 2 * border - left - right
    low = box["height"] - 2 * border - bottom - pad
    return (
        box["x"] + border + left + width * frame / STEPS,
        box["y"] + border + low - (low - top - pad) * value,
    )


def drag(page, *places: tuple[float, float]) -> None:
    page.mouse.move(*at(page, *places[0]))
    page.mouse.down()
    for place in places[1:]:
        page.mouse.move(*at(page, *place), steps=4)
    page.mouse.up()


def stored(path, episode=0) -> dict:
    folder = path.with_name("data.npy.sketches") / "anna"
    return json.loads((folder / f"episode-{episode:06d}.json").read_text())


def test_every_pixel_of_every_frame_is_that_of_the_data(context, data, frames):
    read = """() => [...document.getElementById("frame").getContext("2d")
        .getImageData(0, 0, 64, 64).data].filter((_, index) => index % 4 < 3)"""
    with serving(data) as address:
        page = opened(context, address)
        for key, frame in (("Home", 0), ("ArrowRight", 1), ("PageDown", 11), ("End", STEPS)):
            page.keyboard.press(key)
            shown(page, frame)
            pixels = np.array(page.evaluate(read), np.uint8).reshape(64, 64, 3)
            assert np.array_equal(pixels, frames[0, frame])
        page.keyboard.press("n")
        shown(page, 0)
        pixels = np.array(page.evaluate(read), np.uint8).reshape(64, 64, 3)
        assert np.array_equal(pixels, frames[1, 0])


def test_a_curve_is_drawn_saved_undone_and_there_after_a_reload(context, data):
    with serving(data) as address:
        page = opened(context, address)
        drag(page, (10, 0.25), (30, 0.75))
        status(page, "Saved")
        rewards = stored(data)["rewards"]
        assert rewards[:9] == [None] * 9
        assert rewards[30:] == [None] * (STEPS - 30)
        # Pixels and steps are rounded: the line from 0.25 to 0.75 within a step of it.
        wanted = np.linspace(0.25, 0.75, 21)
        assert np.abs(np.array(rewards[9:30]) - wanted).max() < 0.035
        shown(page, 30)  # the frame follows the hand
        drag(page, (20, 0.1), (25, 0.1))
        status(page, "Saved")
        assert stored(data)["rewards"][22] == pytest.approx(0.1, abs=0.01)
        page.keyboard.press("z")
        status(page, "Saved")
        assert stored(data)["rewards"] == rewards
        page.reload()
        shown(page, 0)
        for _ in range(20):
            page.keyboard.press("ArrowRight")
        page.locator("#place", has_text=f"frame 20 of {STEPS}, reward {rewards[19]:.2f}").wait_for()
        page.locator("#erase").click()
        drag(page, (1, 0.5), (STEPS, 0.5))
        status(page, "Saved")
        assert stored(data)["rewards"] == [None] * STEPS


def test_keys_alone_draw_mark_copy_and_turn_pages(context, data):
    with serving(data) as address:
        page = opened(context, address)
        press = page.keyboard.press
        press("ArrowRight")
        press("ArrowUp")  # from the middle
        press("f")
        for _ in range(2):
            press("ArrowRight")
        for _ in range(3):
            press("Shift+ArrowRight")
        press("s")
        status(page, "Saved")
        saved = stored(data)
        assert saved["rewards"][0] == 0.55
        assert saved["outcome"] == "failure"
        assert [step for step, mark in enumerate(saved["success"]) if mark] == [2, 3, 4, 5]
        press("n")
        page.locator(".row[aria-selected=true]", has_text="1").wait_for()
        shown(page, 0)
        press("c")
        status(page, "Saved")
        assert stored(data, 1)["rewards"] == [0.55] * STEPS
        assert page.locator("#tally").text_content() == "2 of 3 done"


def test_shift_and_an_arrow_extend_a_span_that_was_dragged_from_where_it_began(context, data):
    with serving(data) as address:
        page = opened(context, address)
        page.keyboard.press("End")
        page.keyboard.press("Shift+ArrowLeft")  # another span, from the last frame
        drag(page, (5, -0.2), (10, -0.2))  # in the band of marks
        page.keyboard.press("Shift+ArrowRight")
        page.keyboard.press("s")
        status(page, "Saved")
    saved = stored(data)["success"]
    assert [step for step, mark in enumerate(saved) if mark] == list(range(4, 11))


def test_two_tabs_keep_both_works_and_ask_where_they_differ(context, data):
    with serving(data) as address:
        one, two = opened(context, address), opened(context, address)
        drag(one, (5, 0.2), (10, 0.2))
        status(one, "Saved")
        drag(two, (20, 0.8), (25, 0.8))  # other steps: merged without a question
        status(two, "Saved")
        rewards = stored(data)["rewards"]
        assert rewards[6] == pytest.approx(0.2, abs=0.01)
        assert rewards[21] == pytest.approx(0.8, abs=0.01)
        drag(one, (20, 0.4), (25, 0.4))  # the same steps
        status(one, "Conflict")
        question = one.locator("#conflict")
        assert "Another tab changed frames 20 to 25" in question.text_content()
        assert stored(data)["rewards"] == rewards
        question.get_by_text("Keep mine").click()
        status(one, "Saved")
        assert stored(data)["rewards"][21] == pytest.approx(0.4, abs=0.01)
        drag(two, (21, 0.9), (22, 0.9))
        status(two, "Conflict")
        two.locator("#conflict").get_by_text("Take theirs").click()
        status(two, "Saved")
        assert stored(data)["rewards"][21] == pytest.approx(0.4, abs=0.01)


def test_undo_keeps_what_another_tab_drew(context, data):
    with serving(data) as address:
        one, two = opened(context, address), opened(context, address)
        drag(one, (5, 0.2), (10, 0.2))
        status(one, "Saved")
        drag(two, (20, 0.8), (25, 0.8))
        status(two, "Saved")
        drag(one, (30, 0.4), (32, 0.4))  # merged with the other tab's
        status(one, "Saved")
        one.keyboard.press("z")
        status(one, "Saved")
        rewards = stored(data)["rewards"]
        assert rewards[30] is None
        assert rewards[21] == pytest.approx(0.8, abs=0.01)


def test_an_episode_that_cannot_be_opened_leaves_the_one_before_open(context, data):
    folder = data.with_name("data.npy.sketches") / "ben"
    folder.mkdir(parents=True)
    (folder / "episode-000001.json").write_text("no sketch")
    with serving(data) as address:
        page = opened(context, address)
        drag(page, (5, 0.2), (10, 0.2))
        status(page, "Saved")
        page.keyboard.press("n")
        page.locator("#problem", has_text="is not a sketch").wait_for()
        page.keyboard.press("s")  # for the episode that is shown, which the list must say
        status(page, "Saved")
        assert page.locator("[aria-selected=true] .number").text_content() == "0"
        assert page.locator("#tally").text_content() == "1 of 3 done"
        page.keyboard.press("n")  # past it
        page.locator("[aria-selected=true] .number", has_text="2").wait_for()
        assert page.locator("#problem").is_hidden()
    assert stored(data)["outcome"] == "success"


def test_a_full_store_of_drafts_does_not_stop_saving(context, data):
    with serving(data) as address:
        page = opened(context, address)
        page.evaluate("() => { Storage.prototype.setItem = () => { throw Error('full'); }; }")
        drag(page, (5, 0.2), (10, 0.2))
        status(page, "Saved")
    assert stored(data)["rewards"][6] == pytest.approx(0.2, abs=0.01)


def test_an_unsaved_episode_that_is_opened_again_is_saved_once(context, data):
    with serving(data) as address:
        page = opened(context, address)
        page.route("**/sketches/*", lambda route: route.abort())
        drag(page, (5, 0.2), (10, 0.2))
        status(page, "Not saved")
        for key, number in (("n", 1), ("p", 0)):
            page.keyboard.press(key)
            page.locator("[aria-selected=true] .number", has_text=str(number)).wait_for()
        page.keyboard.press("z")  # takes back what the first visit could not save
        page.unroute("**/sketches/*")
        drag(page, (20, 0.8), (25, 0.8))
        status(page, "Saved")
        page.wait_for_timeout(4_000)  # longer than the pause between two attempts
    rewards = stored(data)["rewards"]
    assert rewards[6] is None
    assert rewards[21] == pytest.approx(0.8, abs=0.01)


def test_arrows_move_in_a_list_that_has_the_focus(context, data):
    with serving(data) as address:
        page = opened(context, address)
        page.keyboard.press("End")
        page.locator("#episodes").focus()
        for key, number in (("ArrowDown", 1), ("ArrowDown", 2), ("ArrowUp", 1)):
            page.keyboard.press(key)
            page.locator("[aria-selected=true] .number", has_text=str(number)).wait_for()
    assert not data.with_name("data.npy.sketches").exists()  # no reward was changed


def test_strips_that_fail_do_not_stop_the_others(context, tmp_path):
    path = tmp_path / "data.npy"
    np.save(path, np.zeros((1, 200, 64, 64, 3), np.uint8))
    with serving(path) as address:
        page = context.new_page()
        page.route(re.compile("strips/[12]$"), lambda route: route.abort())
        page.goto(address)
        shown(page, 0)
        page.locator("#problem", has_text="does not answer").wait_for()
        page.keyboard.press("End")
        shown(page, 199)


def test_two_people_see_each_other_and_their_agreement(context, data):
    with serving(data) as address:
        page = opened(context, address)
        drag(page, (1, 0.2), (STEPS, 0.6))
        status(page, "Saved")
        page.locator("#annotator").fill("ben")
        page.locator("#annotator").press("Enter")
        page.locator("#others", has_text="anna has a sketch too").wait_for()
        drag(page, (1, 0.3), (STEPS, 0.7))
        page.locator("#others", has_text="mean distance 0.10, correlation 1.00").wait_for()


def test_what_a_file_says_is_text(context, tmp_path, frames):
    folder = tmp_path / "<img src=x onerror=alert(1)>"
    folder.mkdir()
    np.save(folder / "one.npy", frames[0])
    with serving(folder) as address:
        page = opened(context, address)
        assert page.locator("#source option").text_content() == folder.name
        assert page.locator("img").count() == 0


# Kills itself inside its second save, before the new file replaces the old one.
DIES = """
import os, signal, sys
from pureward import files
from pureward.cli import main
whole, count = files._publish, iter(range(1, 100))
def publish(*paths):
    if next(count) == 2 and sys.argv[1] == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    whole(*paths)
files._publish = publish
main(["studio", sys.argv[2], "--no-browser", "--port", sys.argv[3]])
"""


@contextmanager
def ended(server):
    """Ends a process at the latest after the block."""
    try:
        yield
    finally:
        server.kill()


@pytest.mark.slow
def test_a_server_killed_in_mid_save_loses_nothing(context, data):
    def start(how, port):
        command = [sys.executable, "-c", DIES, how, str(data), str(port)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    with start("dies", 0) as server, ended(server):
        address = server.stdout.readline().split()[1]
        page = opened(context, address)
        page.locator("#annotator").fill("anna")
        page.locator("#annotator").press("Enter")
        drag(page, (5, 0.2), (10, 0.2))
        status(page, "Saved")
        before = stored(data)
        drag(page, (20, 0.8), (25, 0.8))
        status(page, "Not saved")
        assert server.wait(30) == -9
    assert stored(data) == before
    with start("lives", address.split(":")[2].split("/")[0]) as server, ended(server):
        opened(context, server.stdout.readline().split()[1])  # a tab with the new token
        status(page, "Saved")
        rewards = stored(data)["rewards"]
        assert rewards[:19] == before["rewards"][:19]
        assert rewards[21] == pytest.approx(0.8, abs=0.01)


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_its_window(browser, data, width, scheme, tmp_path):
    context = browser.new_context(viewport={"width": width, "height": 844}, color_scheme=scheme)
    with serving(data) as address:
        page = opened(context, address)
        page.screenshot(path=tmp_path / "sketch.png")
        wide = page.evaluate("() => document.scrollingElement.scrollWidth")
        assert wide == width
        paper = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
        assert (paper == "rgb(255, 255, 255)") == (scheme == "light")
        box = page.locator("#frame").bounding_box()
        assert box["width"] % 64 == 0  # pixels stay square
        assert box["width"] >= 128
    context.close()


def test_a_thousand_episodes_are_a_few_rows(context, tmp_path):
    path = tmp_path / "data.npy"
    np.save(path, np.zeros((1000, 3, 8, 8, 3), np.uint8))
    with serving(path) as address:
        page = opened(context, address)
        assert page.locator(".row").count() < 60
        page.locator("#episodes").evaluate("list => list.scrollTop = list.scrollHeight")
        page.locator(".row", has_text="999").click()
        page.locator(".row[aria-selected=true]", has_text="999").wait_for()


# Rows of one run must not be drawn when another is chosen.
ANOTHER_RUN = """async () => {
  const { Evidence } = await import("/static/evidence.js");
  const view = new Evidence(() => {});
  view.rows = [{ number: 0, mark: "", true_return: 1, learned_return: 2 }];
  view.list.show(1, 0);
  await view.choose(0);
  view.list.draw();
  return view.list.count;
}"""


def test_a_run_in_training_is_followed_and_its_words_are_text(context, data, tmp_path):
    path = write_run(tmp_path / "<b>run", "nn-pugail", course(10.0))
    with serving(data, runs=[path]) as address:
        page = opened(context, address)
        page.locator("#view-evidence").click()
        line = page.locator(".line")
        line.get_by_text("<b>run, 1,000 env steps").wait_for()
        assert page.locator("canvas[aria-label=Return]").count() == 1
        with (path / "metrics.jsonl").open("a") as file:
            file.write(json.dumps({"kind": "eval", "step": 2000, "return": 50.0}) + "\n")
        line.get_by_text("2,000 env steps").wait_for()
        page.locator("#search").click()
        page.locator("#searching", has_text="needs demonstrations").wait_for()  # one sentence
        assert page.evaluate(ANOTHER_RUN) == 0


# Keeps every label that ends at the axis, with the place where it begins.
LABELS = """
const fillText = CanvasRenderingContext2D.prototype.fillText;
window.labels = [];
CanvasRenderingContext2D.prototype.fillText = function (text, x, y, most = Infinity) {
  if (this.textAlign === "right")
    window.labels.push([text, x - Math.min(most, this.measureText(text).width)]);
  return fillText.call(this, text, x, y, ...(most < Infinity ? [most] : []));
};
"""


def test_a_search_that_fails_says_so_and_can_be_tried_again(context, data, tmp_path):
    run = write_run(tmp_path / "run", "gail", course(10.0))
    with serving(data, runs=[run]) as address:
        page = opened(context, address)
        page.locator("#view-evidence").click()
        page.route("**/api/runs/*/episodes", lambda route: route.abort())
        page.locator("#search").click()
        page.locator("#searching", has_text="the server does not answer").wait_for()
        assert page.locator("#search").is_enabled()
        page.unroute("**/api/runs/*/episodes")
        page.locator("#search").click()  # the run has no policy, which the server says
        page.locator("#searching", has_text=str(run)).wait_for()


def test_what_a_search_found_comes_into_view(context, data, tmp_path):
    runs = [write_run(tmp_path / name, name, course(10.0)) for name in ("gail", "nn-pugail")]
    row = {"number": 0, "mark": "", "true_return": 1, "learned_return": 2}
    found = {"state": "done", "error": "", "episodes": [row], "marked": {}}
    context.route("**/api/runs/*/episodes", lambda route: route.fulfill(json=found))
    with serving(data, runs=runs) as address:
        page = opened(context, address)
        page.locator("#view-evidence").click()
        page.locator("#found").wait_for()
        bottom = "() => document.querySelector('#tracks').getBoundingClientRect().bottom"
        page.wait_for_function(f"{bottom} > innerHeight")  # found before, and not asked for now
        page.locator("#search").focus()
        page.keyboard.press("Enter")  # a click would scroll to the button
        page.wait_for_function(f"{bottom} <= innerHeight")


def test_labels_of_an_axis_lie_on_their_chart(context, data, tmp_path):
    small = {"predicted/train": -0.000123, "predicted/as_trained": -0.00456}
    path = write_run(tmp_path / "run", "nn-purl", course(-12345.0, probe=small))
    context.add_init_script(LABELS)
    with serving(data, runs=[path]) as address:
        page = opened(context, address)
        page.locator("#view-evidence").click()
        page.locator("canvas[aria-label^='Mean r_φ']").wait_for()
        page.wait_for_function("() => window.labels.some(([text]) => text.includes('env steps'))")
        labels = page.evaluate("() => window.labels")
    assert {"-0.0046", "-12.3k"} <= {text for text, _ in labels}
    assert [text for text, begins in labels if begins < 0] == []


def test_spans_are_shaded_where_much_is_promised_and_d_is_low(context, data):
    shaded = """tracks => import("/static/evidence.js").then((part) => part.suspicious(tracks))"""
    gated = {"true r": [0, 0, 0, 1], "paid": [0, 0, 0, 0.9], "r_φ": [0.1, 0.9, 0.8, 0.9]}
    with serving(data) as address:
        page = opened(context, address)
        assert page.evaluate(shaded, gated | {"D": [0.1, 0.2, 0.4, 0.9]}) == [[1, 3]]
        imitated = {"true r": [-9, -9, 0, 0], "paid": [0.1, 1, 1, 1], "D": [0.1, 0.9, 0.9, 0.9]}
        assert page.evaluate(shaded, imitated) == [[1, 2]]


@pytest.fixture
def trained(short_episodes, tmp_path):
    """A short run and the dataset that it learned from."""
    run, source = tmp_path / "run", tmp_path / "rated"
    pureward.train(tiny(tmp_path / "policy", env_steps=40, warmup_steps=20))
    collect("reach", tmp_path / "policy", source, episodes=6, device="cpu")
    often = {"env_steps": 96, "probe_every": 48, "probe_frames": 4}
    data = {"method": "nn-purl", "prior": "0.5", "annotations": str(source)}
    pureward.train(tiny(run, **often, **data, reward=SMALL_REWARD))
    return run, source


@pytest.mark.slow
def test_the_page_says_how_many_episodes_are_marked_and_how_to_use_them(context, trained):
    run, source = trained
    context.set_default_timeout(60_000)
    with serving(source, runs=[run]) as address:
        page = opened(context, address)
        page.locator("#view-evidence").click()
        page.locator("#search").click()
        page.locator("#scored-frame[data-frame]").wait_for()
        marked = page.locator("#marked")
        assert marked.text_content() == ""
        page.locator("#mark-success").click()
        marked.get_by_text("1 success is marked; one is enough.").wait_for()
        command = f"pureward train reach --demonstrations {run}/marked/successes --prior 0.5"
        assert command in marked.text_content()
        page.locator("#scored .row").nth(1).click()
        page.locator("#scored .row:nth-of-type(2)[aria-selected=true]").wait_for()
        page.keyboard.press("s")
        marked.get_by_text("2 successes are marked").wait_for()
        page.keyboard.press("f")
        marked.get_by_text("1 success is marked").wait_for()
        marked.get_by_text(f"--failures {run}/marked/failures --reward.risk nnpnu").wait_for()
        page.reload()
        page.locator("#view-evidence").click()
        marked.get_by_text("1 failure is marked").wait_for()
        page.locator("#scored .row", has_text="failure").click()
        page.locator("#mark-failure[aria-pressed=true]").wait_for()
        page.keyboard.press("u")
        marked.get_by_text("1 failure is marked").wait_for(state="detached")
    assert len(pureward.read_episodes(run / "marked/successes")) == 1
    assert not (run / "marked/failures").exists()


@pytest.fixture
def shown_data(request, tmp_path):
    """Runs and a dataset for pictures: a short run, or "RUN… DATASET" of PUREWARD_SHOW."""
    given = os.environ.get("PUREWARD_SHOW", "").split()
    if given:
        source = tmp_path / "rated"
        shutil.copytree(given[-1], source)  # sketches go beside it
        if sidecar(Path(given[-1])).exists():
            shutil.copytree(sidecar(Path(given[-1])), sidecar(source))
        return [Path(run) for run in given[:-1]], source
    run, source = request.getfixturevalue("trained")
    return [run], source


@pytest.mark.slow
def test_pictures_of_both_views(browser, shown_data, tmp_path):
    """PUREWARD_PICTURES names a folder for the pictures: docs/assets has such ones."""
    runs, source = shown_data
    out = Path(os.environ.get("PUREWARD_PICTURES", tmp_path))
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    context.set_default_timeout(120_000)
    with serving(source, runs=runs) as address:
        page = opened(context, address)
        truth = [episode.rewards.tolist() for episode in pureward.read_episodes(source)]
        rises = [rewards[-1] - rewards[0] for rewards in truth[:20]]
        chosen = truth[rises.index(max(rises))]
        page.locator(".row").nth(rises.index(max(rises))).click()
        page.locator(".row[aria-selected=true]", has_text=f"{rises.index(max(rises))}").wait_for()
        shown(page, 0)
        points = np.linspace(0, len(chosen) - 1, 17)[1:-1].astype(int).tolist()
        drag(page, *((STEPS * (step + 1) / len(chosen), chosen[step]) for step in points))
        status(page, "Saved")
        page.keyboard.press("s")
        status(page, "Saved")
        page.screenshot(path=out / "studio-sketch.png")
        page.locator("#view-evidence").click()
        if len(runs) > 1:
            page.locator("#other").select_option(index=len(runs))
        page.locator("#search").click()
        page.locator("#scored-frame[data-frame]").wait_for()
        page.wait_for_timeout(2000)
        for _ in range(16):
            page.keyboard.press("ArrowRight")
        page.mouse.move(0, 0)
        tall = page.locator("#evidence section").evaluate("section => section.scrollHeight")
        page.set_viewport_size({"width": 1280, "height": 45 + tall})  # the section scrolls
        page.wait_for_timeout(1000)
        page.screenshot(path=out / "studio-evidence.png")
    context.close()
    for name in ("sketch", "evidence"):
        with Image.open(out / f"studio-{name}.png") as picture:
            assert picture.width == 1280
            assert len(picture.convert("RGB").resize((160, 100)).getcolors(16000)) > 50
