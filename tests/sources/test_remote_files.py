"""Files behind addresses: fetched once, told from what they were before, and never half of them."""

import gzip
import threading
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import fsspec
import pyarrow
import pyarrow.parquet
import pytest

from torchpipe.errors import ConfigError, NoFingerprint, SourceError
from torchpipe.sources import load_rows, source_fingerprint

ROWS = b'{"n": 1, "t": "\xc3\xa9\\r\\n"}\n{"n": 2}\n'


@dataclass
class Site:
    """What a server of this machine answers with, and what it was asked."""

    address: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    says: dict[str, str] = field(default_factory=dict)
    knows_head: bool = True
    cut: int = 0
    asked: list[str] = field(default_factory=list)
    headers: list[Any] = field(default_factory=list)


@pytest.fixture
def site() -> Iterator[Site]:
    served = Site(says={"ETag": '"1"'})

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            served.asked.append(f"{self.command} {self.path}")
            served.headers.append(self.headers)
            content = served.files.get(unquote(self.path))
            if self.command == "HEAD" and not served.knows_head:
                self.send_error(405)
                return
            if content is None:
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            for name, value in served.says.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(content[: len(content) - served.cut])

        do_GET = do_HEAD = answer  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    served.address = f"http://127.0.0.1:{server.server_port}"
    yield served
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def memory() -> Iterator[Any]:
    files = fsspec.filesystem("memory")
    yield files
    files.store.clear()


def read(files: Any, source: str = "json", **options: Any) -> list[Any]:
    rows = load_rows(source, data_files=files, split="train", **options)
    return [rows[index] for index in range(len(rows))]


def told(files: Any, **options: Any) -> dict[str, str]:
    content = options.pop("content", False)
    return source_fingerprint("json", {"data_files": files, "split": "train", **options}, content=content)


def test_a_file_of_a_server_is_fetched_once(site: Site, tmp_path: Path) -> None:
    site.files["/a/rows.jsonl"] = ROWS
    for _ in range(3):
        rows = read(f"{site.address}/a/rows.jsonl", cache_dir=str(tmp_path))
        assert rows == [{"n": 1, "t": "é\r\n"}, {"n": 2}]
    assert site.asked.count("GET /a/rows.jsonl") == 1
    assert load_rows(f"{site.address}/a/rows.jsonl", split="train", cache_dir=str(tmp_path))[1] == {"n": 2}


@pytest.mark.parametrize("says", ["ETag", "Last-Modified"])
def test_a_file_that_changed_is_fetched_anew(site: Site, says: str) -> None:
    address = f"{site.address}/{says}.jsonl"
    fingerprints = []
    for number in (1, 2):
        site.files[f"/{says}.jsonl"] = b'{"n": %d}\n' % number
        site.says = {says: f"version {number}"}
        fingerprints.append(told(address))
        assert read(address) == [{"n": number}]
        assert told(address) == fingerprints[-1]
    assert fingerprints[0] != fingerprints[1]
    assert fingerprints[1]["file 0"] == f"{address}: 9 bytes, {says} version 2"


def test_a_server_that_says_no_version_is_asked_each_time_and_nothing_is_stored_under_a_key(site: Site) -> None:
    site.says = {}
    address = f"{site.address}/no_version.jsonl"
    site.files["/no_version.jsonl"] = b'{"n": 1}\n'
    with pytest.warns(UserWarning, match=r"no_version\.jsonl is fetched anew by each process"):
        assert read(address) == [{"n": 1}]
    site.files["/no_version.jsonl"] = b'{"n": 2}\n'
    assert read(address) == [{"n": 2}]  # and without a second warning
    with pytest.raises(
        NoFingerprint, match="server says neither an ETag nor when the file changed. Download it, or set"
    ):
        told(address)
    assert " content " in told(address, content=True)["file 0"]


def test_a_server_without_head_is_asked_for_the_file(site: Site) -> None:
    site.knows_head = False
    site.files["/no head.jsonl"] = ROWS
    assert len(read(f"{site.address}/no head.jsonl")) == 2
    assert site.asked[0] == "HEAD /no%20head.jsonl"


def test_headers_are_sent(site: Site) -> None:
    site.files["/with_key.jsonl"] = ROWS
    read(f"{site.address}/with_key.jsonl", storage_options={"headers": {"Authorization": "Bearer x"}})
    assert {headers["Authorization"] for headers in site.headers} == {"Bearer x"}


def test_failures_of_a_server_are_sentences(site: Site) -> None:
    with pytest.raises(SourceError, match=r"gone\.jsonl can't be fetched: the server answered 404 \(Not Found\)"):
        read(f"{site.address}/gone.jsonl")
    site.files["/cut.jsonl"] = ROWS
    site.cut = 5
    with pytest.raises(SourceError, match=r"cut\.jsonl (was cut short|can't be fetched)"):
        read(f"{site.address}/cut.jsonl")
    site.cut = 0
    assert len(read(f"{site.address}/cut.jsonl")) == 2
    with pytest.raises(SourceError, match="can't be fetched: .*refused"):
        read("http://127.0.0.1:9/rows.jsonl")


def test_compressed_and_parquet_files_of_a_server_are_read(site: Site) -> None:
    site.files["/rows.jsonl.gz"] = gzip.compress(ROWS)
    assert read(f"{site.address}/rows.jsonl.gz")[1] == {"n": 2}
    out = pyarrow.BufferOutputStream()
    pyarrow.parquet.write_table(pyarrow.table({"n": [7]}), out)
    site.files["/rows.parquet"] = out.getvalue().to_pybytes()
    assert read(f"{site.address}/rows.parquet", "parquet") == [{"n": 7}]


def test_files_of_fsspec_are_read_and_patterns_are_sorted(memory: Any) -> None:
    for name in ("b", "a", "c"):
        memory.pipe(f"/folder/{name}.jsonl", b'{"n": "%s"}\n' % name.encode())
    assert read("memory://folder/*.jsonl") == [{"n": "a"}, {"n": "b"}, {"n": "c"}]
    assert read("c.jsonl", data_dir="memory://folder") == [{"n": "c"}]
    assert read({"train": "memory://folder/a.jsonl", "test": "memory://not there"}) == [{"n": "a"}]
    memory.pipe("/folder/a.csv.gz", gzip.compress(b"n\n007\n"))
    assert read("memory://folder/a.csv.gz", "csv") == [{"n": "007"}]


def test_a_file_of_fsspec_that_changed_is_fetched_anew(memory: Any) -> None:
    fingerprints = []
    for number in (1, 2):
        memory.pipe("/changes.jsonl", b'{"n": %d}\n' % number)
        assert read("memory://changes.jsonl") == [{"n": number}]
        fingerprints.append(told("memory://changes.jsonl")["file 0"])
    assert fingerprints[0] != fingerprints[1]


def test_what_cannot_be_reached_is_a_sentence(memory: Any) -> None:
    memory.pipe("/folder/a.jsonl", ROWS)
    with pytest.raises(SourceError, match=r"There is no file memory://folder/b\.jsonl"):
        read("memory://folder/b.jsonl")
    with pytest.raises(SourceError, match=r"No file matches memory://folder/\*\.json\. Check"):
        read("memory://folder/*.json")
    with pytest.raises(SourceError, match=r"memory://folder is a folder. Give the files in it: memory://folder/\*"):
        read("memory://folder")
    with pytest.raises(ConfigError, match=r"data_dir='memory://folder' is an address. Name the files"):
        load_rows("json", data_dir="memory://folder", split="train")
    with pytest.raises(ConfigError, match=r"nothing speaks the protocol 'memry'. Did you mean 'memory'\?"):
        read("memry://folder/a.jsonl")
    with pytest.raises(ConfigError, match=r"s3://bucket/a\.jsonl can't be reached: Install s3fs"):
        read("s3://bucket/a.jsonl")


def test_fetching_says_nothing(memory: Any) -> None:
    memory.pipe("/quiet.jsonl", ROWS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read("memory://quiet.jsonl")
