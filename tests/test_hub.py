"""torch.hub over HTTP (a server of our own) and without a network."""

from __future__ import annotations

import hashlib
import http.server
import io
import threading
import zipfile

import pytest

import rushlight as torch
from rushlight import hub


@pytest.fixture
def server(tmp_path):
    """{path: content} served over HTTP; `.url` is where."""

    class Files(dict):
        url = ""
        asked: list[str] = []

    files = Files()
    files.asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            files.asked.append(self.path)
            content = files.get(self.path)
            if content is None:
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header(
                "Content-Length", str(len(content) + 10 * self.path.startswith("/short"))
            )
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *args):
            pass

    http_server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http_server.daemon_threads = True
    thread = threading.Thread(target=http_server.serve_forever, daemon=True)
    thread.start()
    files.url = f"http://127.0.0.1:{http_server.server_address[1]}"
    yield files
    http_server.shutdown()
    http_server.server_close()
    thread.join()


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """Downloads go here."""
    monkeypatch.setattr(hub, "_dir", None)
    hub.set_dir(tmp_path / "hub")
    return tmp_path / "hub"


def weights() -> bytes:
    file = io.BytesIO()
    torch.save({"w": torch.ones(2)}, file)
    return file.getvalue()


def test_weights_are_fetched_once(server, kept, capsys):
    content = weights()
    name = f"net-{hashlib.sha256(content).hexdigest()[:8]}.pth"
    server[f"/{name}?x=1"] = content
    for _ in range(2):
        state = hub.load_state_dict_from_url(
            f"{server.url}/{name}?x=1", check_hash=True, progress=False
        )
        assert state["w"].tolist() == [1.0, 1.0]
    assert server.asked == [f"/{name}?x=1"]
    assert hub.get_dir() == str(kept)
    assert (kept / "checkpoints" / name).read_bytes() == content


def test_files_under_another_name(server, kept, tmp_path):
    server["/a"] = weights()
    state = hub.load_state_dict_from_url(
        server.url + "/a", str(tmp_path / "here"), file_name="b.pth", weights_only=True
    )
    assert list(state) == ["w"]
    assert (tmp_path / "here" / "b.pth").exists()
    target = tmp_path / "c"
    hub.download_url_to_file(server.url + "/a", str(target), progress=False)
    assert target.read_bytes() == server["/a"]


def test_what_goes_wrong_leaves_no_file(server, tmp_path):
    server["/a"] = server["/short"] = b"content"
    target = tmp_path / "x"
    with pytest.raises(RuntimeError, match="invalid hash value"):
        hub.download_url_to_file(server.url + "/a", str(target), "0000", progress=False)
    with pytest.raises(OSError, match="HTTP 404"):
        hub.download_url_to_file(server.url + "/absent", str(target), progress=False)
    with pytest.raises((RuntimeError, OSError)):
        hub.download_url_to_file(server.url + "/short", str(target), progress=False)
    with pytest.raises(OSError, match="by other means"):
        hub.download_url_to_file("http://127.0.0.1:9/closed", str(target), progress=False)
    assert list(tmp_path.iterdir()) == []


def test_a_repository(server, kept, monkeypatch):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("someone-models-1a2b/hubconf.py", "def three(): return 3\n")
    server["/repository.zip"] = packed.getvalue()
    fetch = hub.download_url_to_file
    asked = []

    def redirected(url, *args, **options):
        asked.append(url)
        fetch(server.url + "/repository.zip", *args, progress=False)

    monkeypatch.setattr(hub, "download_url_to_file", redirected)
    assert hub.load("someone/models:main", "three", trust_repo=True) == 3
    assert hub.list("someone/models:main") == ["three"]  # kept now
    assert asked == ["https://github.com/someone/models/zipball/main"]
    assert (kept / "someone_models_main" / "hubconf.py").exists()
    with pytest.raises(ValueError, match="owner/name"):
        hub.load("models", "three")
    monkeypatch.setattr("builtins.input", lambda question: "n")
    with pytest.raises(RuntimeError, match="Untrusted"):
        hub.load("someone/others", "three")


def test_no_network_for_a_repository(kept, monkeypatch):
    def offline(url, *args, **options):
        raise OSError("no network")

    monkeypatch.setattr(hub, "download_url_to_file", offline)
    with pytest.raises(OSError, match='source="local"'):
        hub.load("someone/models", "three", trust_repo=True)
    with pytest.raises(FileNotFoundError, match=r"no hubconf\.py"):
        hub.load(str(kept), "three", source="local")
