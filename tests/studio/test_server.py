"""The server: who may ask for what, and what it answers."""

import io
import json
import os
import socket
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("starlette", reason="needs the extra studio")
pytest.importorskip("httpx", reason="needs httpx")

import httpx
from PIL import Image

import pureward
from pureward.cli import main
from pureward.studio.app import make_app
from pureward.studio.guard import MOST_BYTES
from pureward.studio.source import Source

TOKEN, PORT = "a-token-of-the-test", 8417
HERE = f"http://127.0.0.1:{PORT}"
EPISODE = "/api/sources/0/episodes/0"
SKETCH = EPISODE + "/sketches/anna"
DRAWN = {"rewards": [0.1, 0.2, 0.3], "success": [None, None, True], "outcome": "", "revision": 0}


@pytest.fixture(scope="module")
def frames():
    """Two episodes of three steps, four pixels wide and two high."""
    return np.random.default_rng(0).integers(0, 256, (2, 4, 2, 4, 3), np.uint8)


@pytest.fixture
def folder(tmp_path, frames):
    np.save(tmp_path / "data.npy", frames)
    return tmp_path


def ask(
    folder, method, path, *, host="127.0.0.1", cookie=True, origin=True, headers=None, **options
) -> httpx.Response:
    """One request as a browser would send it, unless told otherwise."""
    import asyncio

    app = make_app(
        [Source(folder / "data.npy")], token=TOKEN, host=host, port=PORT, annotator="anna"
    )
    sent = {"cookie": f"pureward-{PORT}={TOKEN}"} if cookie else {}
    if method != "GET" and origin:
        sent["origin"] = HERE

    async def talk() -> httpx.Response:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url=HERE) as client:
            return await client.request(method, path, headers=sent | (headers or {}), **options)

    return asyncio.run(talk())


def test_the_token_of_the_address_sets_a_strict_cookie(folder):
    page = ask(folder, "GET", f"/?token={TOKEN}", cookie=False)
    assert page.status_code == 200
    words = {word.strip() for word in page.headers["set-cookie"].split(";")}
    assert {f"pureward-{PORT}={TOKEN}", "HttpOnly", "SameSite=Strict", "Path=/"} == words


@pytest.mark.parametrize(
    "path", ["/", "/?token=wrong", "/static/main.js", "/api/overview", EPISODE, "/nothing"]
)
def test_nothing_is_answered_without_the_token(folder, path):
    refused = ask(folder, "GET", path, cookie=False)
    assert refused.status_code == 401
    assert "open the printed address" in refused.json()["error"]
    assert "set-cookie" not in refused.headers


def test_a_token_in_the_address_is_for_the_page_alone(folder):
    assert ask(folder, "GET", f"/api/overview?token={TOKEN}", cookie=False).status_code == 401
    wrong = {"cookie": f"pureward-{PORT}={TOKEN[:-1]}"}
    assert ask(folder, "GET", "/", cookie=False, headers=wrong).status_code == 401


@pytest.mark.parametrize(
    "host",
    ["evil.example:8417", "127.0.0.1:80", "127.0.0.1", "localhost.evil:8417", "", "192.0.2.1:8417"],
)
def test_another_host_is_refused(folder, host):
    """As of a site whose name was made to point to 127.0.0.1."""
    refused = ask(folder, "GET", "/api/overview", headers={"host": host})
    assert refused.status_code == 403


def test_cookies_of_other_servers_on_this_machine_hide_no_token(folder):
    own = f"pureward-{PORT}={TOKEN}"
    for cookies in (f'theme={{"dark": 1}}; {own}', f"{own}; a b=c", f"bad[=1; {own}"):
        given = ask(folder, "GET", "/api/overview", cookie=False, headers={"cookie": cookies})
        assert given.status_code == 200, cookies


@pytest.mark.parametrize("host", ["127.0.0.1:8417", "localhost:8417", "[::1]:8417"])
def test_names_of_this_machine_are_let_in(folder, host):
    assert ask(folder, "GET", "/api/overview", headers={"host": host}).status_code == 200


def test_told_to_listen_elsewhere_it_takes_addresses_but_no_names_and_still_needs_the_token(folder):
    given = {"host": "192.0.2.1:8417"}
    assert ask(folder, "GET", "/api/overview", host="0.0.0.0", headers=given).status_code == 200
    alone = ask(folder, "GET", "/api/overview", host="0.0.0.0", headers=given, cookie=False)
    assert alone.status_code == 401
    named = ask(folder, "GET", "/api/overview", host="0.0.0.0", headers={"host": "evil.it:8417"})
    assert named.status_code == 403


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1", ""])
def test_another_origin_is_refused_even_with_the_cookie(folder, origin):
    for method, path in (("PUT", SKETCH), ("GET", "/api/overview")):
        refused = ask(folder, method, path, json=DRAWN, headers={"origin": origin})
        assert refused.status_code == 403
    assert not (folder / "data.npy.sketches").exists()


def test_a_change_without_an_origin_is_refused(folder):
    assert ask(folder, "PUT", SKETCH, json=DRAWN, origin=False).status_code == 403


def test_headers_forbid_foreign_code_and_frames(folder):
    for path in ("/", "/static/main.js", "/api/overview", "/nothing"):
        found = ask(folder, "GET", path).headers
        policy = found["content-security-policy"]
        assert "default-src 'none'; script-src 'self'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert found["x-content-type-options"] == "nosniff"
        assert found["referrer-policy"] == "no-referrer"
        assert "access-control-allow-origin" not in found


@pytest.mark.parametrize(
    "path",
    [
        "/static/../app.py",
        "/static/%2e%2e/app.py",
        "/static/..%2fapp.py",
        "/static//etc/passwd",
        "/etc/passwd",
        "/api/sources/../../etc/passwd",
        "/api/sources/-1/episodes/0",
        "/api/sources/1/episodes/0",
        "/api/sources/0/episodes/2",
        EPISODE + "/strips/1",
        "/api/sources/0/episodes/" + "9" * 5000,
    ],
)
def test_no_path_leads_outside(folder, path):
    assert ask(folder, "GET", path).status_code in (400, 404, 414)


@pytest.mark.parametrize("name", ["..%2f..%2fx", "%2e%2e", "a b", "a" * 41, "%00"])
def test_an_annotator_cannot_name_another_folder(folder, name):
    before = sorted(folder.rglob("*"))
    answer = ask(folder, "PUT", f"{EPISODE}/sketches/{name}", json=DRAWN)
    assert answer.status_code in (400, 404)
    assert sorted(folder.rglob("*")) == before


def test_a_link_out_of_the_data_is_not_followed(tmp_path):
    (tmp_path / "secret.png").write_bytes(_png())
    episode = tmp_path / "data.npy"  # a folder, whatever its name
    episode.mkdir()
    (episode / "0.png").write_bytes(_png())
    (episode / "1.png").symlink_to(tmp_path / "secret.png")
    refused = ask(tmp_path, "GET", EPISODE + "/strips/0")
    assert refused.status_code == 400
    assert "must lie in" in refused.json()["error"]


def test_a_linked_sidecar_is_not_followed(folder):
    outside = folder / "outside"
    outside.mkdir()
    (folder / "data.npy.sketches").symlink_to(outside)
    refused = ask(folder, "PUT", SKETCH, json=DRAWN)
    assert refused.status_code == 400
    assert "is a link" in refused.json()["error"]
    assert not list(outside.iterdir())


def test_long_requests_are_refused_whether_they_state_their_length_or_not(folder):
    long = b" " * (MOST_BYTES + 1)
    assert ask(folder, "PUT", SKETCH, content=long).status_code == 413

    async def parts():
        for _ in range(5):
            yield long[: MOST_BYTES // 4]

    unstated = ask(folder, "PUT", SKETCH, content=parts())
    assert unstated.status_code == 413
    assert "at most" in unstated.json()["error"]


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff", b"[" * 100_000, b'{"rewards": 1}'])
def test_a_body_that_is_no_sketch_is_one_sentence(folder, body):
    answer = ask(folder, "PUT", SKETCH, content=body)
    assert answer.status_code == 400
    assert answer.json()["error"]


def test_a_sketch_of_another_length_is_refused(folder):
    short = DRAWN | {"rewards": [0.1], "success": [None]}
    answer = ask(folder, "PUT", SKETCH, json=short)
    assert answer.status_code == 400
    assert "has 3 steps, got a sketch of 1" in answer.json()["error"]


def test_a_sketch_of_data_that_was_changed_is_named_with_what_to_do(folder):
    assert ask(folder, "PUT", SKETCH, json=DRAWN).status_code == 200
    (file,) = (folder / "data.npy.sketches").glob("*/*.json")
    file.write_text(json.dumps(DRAWN | {"rewards": [0.1], "success": [None], "revision": 1}))
    error = ask(folder, "GET", EPISODE).json()["error"]
    assert str(file.parent) in error
    assert error.endswith("delete that sketch's file")


def test_strips_hold_every_pixel(folder, frames):
    info = ask(folder, "GET", EPISODE).json()
    facts = [info[name] for name in ("steps", "count", "height", "width", "cameras")]
    assert facts == [3, 4, 2, 4, 1]
    strip = ask(folder, "GET", EPISODE + "/strips/0")
    assert strip.headers["content-type"] == "image/png"
    image = np.asarray(Image.open(io.BytesIO(strip.content)))
    assert np.array_equal(image, frames[0].reshape(8, 4, 3))


def test_cameras_stand_side_by_side(tmp_path):
    views = np.random.default_rng(0).integers(0, 256, (3, 2, 4, 6), np.uint8)
    np.savez(tmp_path / "two.npz", a=views[..., :3], b=views[..., 3:])
    both = pureward.read_episodes(tmp_path / "two.npz", images=("a", "b"), size=None)
    source = Source(tmp_path / "two.npz", images=("a", "b"))
    assert both[0].frames.shape == (3, 6, 2, 4)
    image = np.asarray(Image.open(io.BytesIO(source.strip(0, 0))))
    assert np.array_equal(image[:2, :4], views[0, ..., :3])
    assert np.array_equal(image[:2, 4:], views[0, ..., 3:])


def test_a_sketch_is_saved_read_back_and_trained_on(folder):
    assert ask(folder, "PUT", SKETCH, json=DRAWN).json() == {"revision": 1}
    stored = ask(folder, "GET", EPISODE).json()["sketches"]
    assert stored == {"anna": DRAWN | {"revision": 1}}
    overview = ask(folder, "GET", "/api/overview").json()
    assert overview["sources"][0]["annotators"] == {"anna": [0]}
    rated = pureward.read_dataset(folder / "data.npy.sketches", frame_shape=(3, 64, 64))
    assert rated[0].rewards.tolist() == pytest.approx([0.1, 0.2, 0.3])
    again = ask(folder, "PUT", SKETCH, json=DRAWN)  # based on revision 0
    assert (again.status_code, again.json()["stored"]["revision"]) == (409, 1)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_one_sentence(folder):
    folder.chmod(0o500)
    try:
        answer = ask(folder, "PUT", SKETCH, json=DRAWN)
    finally:
        folder.chmod(0o700)
    assert answer.status_code == 400
    assert "cannot be written" in answer.json()["error"]


def test_a_file_in_place_of_the_sidecar_is_one_sentence(folder):
    (folder / "data.npy.sketches").write_text("")
    answer = ask(folder, "PUT", SKETCH, json=DRAWN)
    assert answer.status_code == 400
    assert "cannot be written" in answer.json()["error"]


def _png() -> bytes:
    written = io.BytesIO()
    Image.fromarray(np.zeros((2, 2, 3), np.uint8)).save(written, "PNG")
    return written.getvalue()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "needs a dataset or a run, got none"),
        (["{folder}/nothing"], "is no file or folder"),
        (["{folder}/data.npy", "--port", "70000"], "port must be 0 to 65535"),
        (["{folder}/data.npy", "--port", "{port}"], "cannot listen on 127.0.0.1"),
        (
            ["{folder}/data.npy", "--host", "192.0.2.1"],
            "cannot listen on 192.0.2.1:8417 (Cannot assign requested address); choose "
            "another --host",
        ),
        (["{folder}/data.npy.sketches"], "name the dataset beside it"),
    ],
)
def test_bad_words_on_the_command_line_are_one_sentence(folder, words, message, capsys):
    (folder / "data.npy.sketches").mkdir()
    with socket.socket() as taken, pytest.raises(SystemExit) as end:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        main(["studio", *(word.format(folder=folder, port=port) for word in words)])
    printed = capsys.readouterr().err
    assert end.value.code == 2
    assert message in printed
    assert printed.count("\n") == 1


def test_the_command_prints_an_address_on_this_machine_that_opens_the_page(folder):
    command = [sys.executable, "-m", "pureward", "studio", str(folder / "data.npy"), "--port", "0"]
    with subprocess.Popen([*command, "--no-browser"], stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            address = server.stdout.readline().split()[1]
            assert address.startswith("http://127.0.0.1:")
            page = httpx.get(address, timeout=30, trust_env=False)
            assert page.status_code == 200
            assert "pureward studio" in page.text
            bare = httpx.get(address.split("?")[0], timeout=30, trust_env=False)
            assert bare.status_code == 401
        finally:
            server.terminate()
            server.wait(30)


def test_no_script_writes_html():
    """What a file says is shown as text."""
    from importlib.resources import files

    scripts = [f for f in (files("pureward.studio") / "static").iterdir() if f.name[-3:] == ".js"]
    assert len(scripts) > 5
    for script in scripts:
        for word in (
            "innerHTML",
            "outerHTML",
            "insertAdjacent",
            "document.write",
            "eval(",
            "Function(",
        ):
            assert word not in script.read_text(), script.name
