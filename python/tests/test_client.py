"""The clients against a running server."""

import asyncio
import inspect
import os
import pickle
import socket
import subprocess
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
from conftest import ENVIRONMENT
from test_examples import WITHOUT_SERVER, blocks, run_examples

import lookalike as la

TEXT = (
    "The harbour ferry will run every twenty minutes during the summer festival, the city council said on "
    "Tuesday. Extra boats have been hired from a neighbouring town, and tickets bought in advance stay valid."
)


def free_port() -> int:
    with socket.socket() as own:
        own.bind(("127.0.0.1", 0))
        return own.getsockname()[1]


def serve(folder: Path):
    """Starts the server in a folder, and gives it with its address when it answers."""
    url = f"http://127.0.0.1:{(port := free_port())}"
    arguments = [
        os.environ["LOOKALIKE_TEST_BINARY"],
        "serve",
        "--listen",
        f"127.0.0.1:{port}",
        "--data",
        str(folder),
    ]
    server = subprocess.Popen(
        arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=ENVIRONMENT
    )
    until = time.monotonic() + 30
    while time.monotonic() < until and server.poll() is None:
        try:
            la.Client(url).request("GET", "/readyz")
            return server, url
        except (la.Unreachable, la.Busy):
            time.sleep(0.05)
    server.kill()
    server.wait()
    raise AssertionError("the server does not start")


@pytest.fixture(scope="module")
def server(command, tmp_path_factory):
    process, url = serve(tmp_path_factory.mktemp("server"))
    yield url
    process.terminate()
    process.wait(30)


def test_a_document_is_stored_found_and_deleted(server):
    client = la.Client(server)
    stored = client.add(TEXT, id="ferry/1", metadata={"source": "news"})
    assert stored["outcome"] == "created"
    assert stored["hash"] == la.fingerprint(TEXT, form="hex")
    copy = TEXT.replace("Tuesday", "Friday")
    found = client.similar(copy, k=30)["similar"]
    assert [own["id"] for own in found] == ["ferry/1"]
    assert found[0]["distance"] == la.compare(TEXT, copy).distance
    assert client.add(copy, on_duplicate="skip")["outcome"] == "duplicate"
    assert client.compare({"id": "ferry/1"}, copy)["match"] is True
    assert client.similar(id="ferry/1", limit=5)["similar"] == []
    assert client.get("ferry/1")["metadata"] == {"source": "news"}
    client.delete("ferry/1")
    with pytest.raises(la.NotFound, match="no_document .404.: .*Remedy: check the id"):
        client.get("ferry/1")


def test_many_documents_are_sent_in_batches(server, monkeypatch):
    monkeypatch.setattr(la.Client, "BATCH", 10)
    client = pickle.loads(pickle.dumps(la.Client(server, collection="many")))
    assert client.create_collection(profile="hashes-64", k=3)["bits"] == 64
    rows = [{"id": f"d{row}", "hash": f"{row:016x}"} for row in range(25)]
    rows[12] = {"id": "d12", "hash": "oops"}
    answers = list(client.add_many(iter(rows)))
    assert [own["index"] for own in answers] == list(range(25))
    assert answers[12]["error"]["status"] == 422
    assert all(own["outcome"] == "created" for own in answers if own["index"] != 12)
    index = la.Index(64)
    index.add([row for row in range(25) if row != 12])
    found = client.similar(hash=f"{7:016x}", k=2, limit=100)["similar"]
    assert {int(own["hash"], 16) for own in found} == {own for own, _ in index.within(7, 2)}
    client.delete_collection()
    with pytest.raises(la.NotFound, match="no_collection"):
        client.similar(hash="0" * 16)


def test_errors_are_classes_with_the_remedy(server, command, tmp_path):
    client = la.Client(server)
    with pytest.raises(la.InvalidRequest) as caught:
        client.similar("a text", k=1_000)
    assert caught.value.status == 422 and "k" in str(caught.value)
    assert "Remedy: correct the field" in str(caught.value)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    other = la.Client(server, collection="other")
    other.create_collection(profile="copies-64")
    with pytest.raises(la.Conflict):
        other.create_collection(profile="copies-128")
    with pytest.raises(la.Unreachable, match="unreachable .0.: http://127.0.0.1:.*Remedy: check the address"):
        la.Client(f"http://127.0.0.1:{free_port()}").get("a")
    for url in ("localhost:8080", "ftp://localhost"):
        with pytest.raises(ValueError, match="url: .* begins with neither http://"):
            la.Client(url)
    with pytest.raises(ValueError, match=r"collection: this client names none: Client\(collection=NAME\)"):
        client.create_collection()


def test_both_clients_have_the_same_methods_and_answers(server):
    public = {name for name in vars(la.Client) if not name.startswith("_") and name != "BATCH"}
    assert {name for name in vars(la.AsyncClient) if not name.startswith("_")} == public | {"close"}
    client = la.Client(server, collection="awaited")

    async def work():
        async with la.AsyncClient(server, collection="awaited", concurrency=4) as own:
            own = pickle.loads(pickle.dumps(own))
            await own.create_collection(profile="copies-128")
            rows = [{"id": f"d{row}", "text": f"{TEXT} {row}"} for row in range(700)]
            stored = [answer async for answer in own.add_many(iter(rows))]
            found = await asyncio.gather(*(own.similar(row["text"], limit=3) for row in rows[:40]))
            with pytest.raises(la.NotFound, match="no_document"):
                await own.get("missing")
            own.close()
            return stored, found

    stored, found = asyncio.run(work())
    assert [own["index"] for own in stored] == list(range(700))
    assert found == [client.similar(f"{TEXT} {row}", limit=3) for row in range(40)]
    assert inspect.iscoroutinefunction(la.AsyncClient.__aexit__)
    client.delete_collection()
    with pytest.raises(ValueError, match="concurrency: 0 is less than 1"):
        la.AsyncClient(server, concurrency=0)


def test_keys_are_sent_and_not_shown(command, tmp_path):
    key = command("keys", "create", "--role", "read", "--data", tmp_path, "tests").split()[-1]
    process, url = serve(tmp_path)
    try:
        with pytest.raises(la.Unauthorized, match="Remedy: give Client"):
            la.Client(url).similar("a text of some words")
        client = la.Client(url, key)
        assert client.similar("a text of some words")["similar"] == []
        assert key not in repr(client)
        with pytest.raises(la.Forbidden):
            client.add("a text of some words")
    finally:
        process.terminate()
        process.wait(30)


def test_redirects_and_strange_answers_are_errors():
    class Strange(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response({"/a": 302, "/b": 503}.get(self.path, 200))
            self.send_header("location", "http://127.0.0.1:1/stolen")
            self.send_header("retry-after", "7")
            self.send_header("content-length", "4")
            self.end_headers()
            self.wfile.write(b"oops" if self.path != "/c" else b"o")

        def log_message(self, *_) -> None:
            pass

    strange = HTTPServer(("127.0.0.1", 0), Strange)
    Thread(target=strange.serve_forever, daemon=True).start()
    client = la.Client(f"http://127.0.0.1:{strange.server_port}", "secret", timeout=5)
    try:
        with pytest.raises(la.ServerError, match="answers 302"):
            client.request("GET", "/a")
        with pytest.raises(la.Busy, match="answers 503") as caught:
            client.request("GET", "/b")
        assert caught.value.retry_after == 7
        with pytest.raises(la.Unreachable):
            client.request("GET", "/c")
    finally:
        strange.shutdown()
        strange.server_close()


def test_examples_run(command, tmp_path, monkeypatch):
    process, url = serve(tmp_path)
    try:
        for kind in (la.Client, la.AsyncClient):
            monkeypatch.setattr(kind.__init__, "__defaults__", (url, None))
            for name, member in vars(kind).items():
                if not name.startswith("_") and name != "BATCH":
                    run_examples(f"{kind.__name__}.{name}", member)
        for block in (block for block in blocks() if "Client(" in block and "import scrapy" not in block):
            exec(block.replace("http://localhost:8080", url), {})
    finally:
        process.terminate()
        process.wait(30)


def test_the_stub_of_the_async_client_has_the_arguments_of_the_client():
    import ast
    from pathlib import Path

    (stub,) = ast.parse(Path(la.__file__).with_name("_async_client.pyi").read_text()).body[-1:]
    told = {own.name: own.args for own in stub.body if not own.name.startswith("__")}
    for name, method in vars(la.Client).items():
        if name.startswith("_") or name == "BATCH":
            continue
        own = told.pop(name)
        names = [arg.arg for arg in own.args + own.kwonlyargs] + ([own.kwarg.arg] if own.kwarg else [])
        assert names == list(inspect.signature(method).parameters), name
    assert set(told) == {"close"}
