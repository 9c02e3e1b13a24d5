"""load_image: files, addresses and data: URLs, what is refused, and with which words."""

import base64
import socket
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from torchpipe.data import load_image
from torchpipe.data.images import ImageReader, decode_image, image_reader
from torchpipe.errors import ConfigError, DataError

PIXELS = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3) * 10


def encoded(pixels: np.ndarray | Image.Image = PIXELS, kind: str = "PNG", **options: Any) -> bytes:
    file = BytesIO()
    (pixels if isinstance(pixels, Image.Image) else Image.fromarray(pixels)).save(file, kind, **options)
    return file.getvalue()


PNG = encoded()
BIG = encoded(np.random.default_rng(0).integers(0, 255, (64, 64, 3), dtype=np.uint8))


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    path = tmp_path / "picture.png"
    path.write_bytes(PNG)
    return path


# --- files ---------------------------------------------------------------------------------------------------------


def test_a_file_becomes_rgb_bytes_channels_first(picture: Path):
    for location in (picture, str(picture)):
        image = load_image(location)
        assert (image.dtype, image.shape) == (torch.uint8, (3, 2, 3))
        assert image.permute(1, 2, 0).tolist() == PIXELS.tolist()
        assert image.is_contiguous()


def test_a_file_whose_name_begins_with_http_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    for name in ("httpfoo.png", "https.png", "data:image.png"):
        Path(name).write_bytes(PNG)
        assert load_image(name, allow_remote=False).shape == (3, 2, 3)


@pytest.mark.parametrize("kind", ["PNG", "BMP", "PPM", "TIFF", "JPEG", "WEBP", "GIF"])
def test_usual_formats_are_known(kind: str):
    image = decode_image(encoded(kind=kind), "it")
    assert (image.dtype, image.shape) == (torch.uint8, (3, 2, 3))


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK"])
def test_every_mode_becomes_rgb_without_a_warning(mode: str):
    made = Image.fromarray(PIXELS).convert(mode)
    options = {"transparency": b"\x00\x80"} if mode == "P" else {}
    kind = "TIFF" if mode == "CMYK" else "PNG"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert decode_image(encoded(made, kind, **options), "it").shape == (3, 2, 3)


def test_sixteen_bits_keep_the_upper_eight():
    deep = np.array([[0, 255, 256, 40000, 65535]], dtype=np.uint16)
    assert decode_image(encoded(deep), "it").tolist() == [[[0, 0, 1, 156, 255]]] * 3


def test_pixels_of_32_bits_are_refused():
    with pytest.raises(DataError, match="has pixels of 32 bits"):
        decode_image(encoded(np.ones((1, 1), dtype=np.float32), "TIFF"), "it")


def test_a_cameras_orientation_is_applied():
    exif = Image.Exif()
    exif[274] = 6  # to be turned by 90 degrees clockwise
    image = decode_image(encoded(Image.fromarray(PIXELS), exif=exif), "it")
    assert image.permute(1, 2, 0).tolist() == np.rot90(PIXELS, -1).tolist()


def test_the_first_picture_of_an_animation_is_taken():
    frames = [Image.new("RGB", (2, 2), color) for color in ("red", "blue")]
    image = decode_image(encoded(frames[0], "GIF", save_all=True, append_images=frames[1:]), "it")
    assert image[:, 0, 0].tolist() == [255, 0, 0]


def test_a_data_url_holds_its_picture():
    text = base64.b64encode(PNG).decode()
    assert load_image(f"data:image/png;base64,{text}").shape == (3, 2, 3)
    with pytest.raises(DataError, match="is not written in base64 as it says"):
        load_image("data:image/png;base64,@@@@")
    with pytest.raises(DataError, match="has more than 20 bytes"):
        load_image(f"data:image/png;base64,{text}", max_bytes=20)


# --- what is refused -----------------------------------------------------------------------------------------------


def test_text_where_a_picture_is_due_is_refused(tmp_path: Path):
    with pytest.raises(DataError, match=r"'A dog on a skateboard\.' does not exist.*name the column of the pictures"):
        load_image("A dog on a skateboard.")
    with pytest.raises(DataError, match=r"'.* is not a file"):
        load_image(tmp_path)
    with pytest.raises(DataError, match=r"picture 'word word .*\.\.\. can't be read: File name too long"):
        load_image("word " * 2000)
    with pytest.raises(DataError, match="does not exist|can't be read"):
        load_image("a\0b.png")
    for value in (None, 3, [str(tmp_path)]):
        with pytest.raises(DataError, match="load_image takes a path or an address, and got a"):
            load_image(value)  # pyright: ignore[reportArgumentType]


def test_every_refusal_is_a_value_error(picture: Path):
    with pytest.raises(ValueError, match="does not exist"):
        load_image(picture.with_name("other.png"))


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "'.*bad.png' is empty: 0 bytes"),
        (b"hello", "is not an image file. The known formats are 'JPEG'"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "is not an image file"),
        (BIG[:300], "can't be decoded, it is damaged or cut short"),
        (encoded(Image.new("RGB", (64, 64), "red"), "JPEG")[:-20], "can't be decoded, it is damaged or cut short"),
    ],
)
def test_a_file_that_is_no_whole_picture_is_refused_with_its_name(tmp_path: Path, data: bytes, sentence: str):
    path = tmp_path / "bad.png"
    path.write_bytes(data)
    with pytest.raises(DataError, match=sentence):
        load_image(path)


def test_limits_are_kept(picture: Path):
    assert load_image(picture, max_bytes=len(PNG), max_pixels=6).shape == (3, 2, 3)
    with pytest.raises(DataError, match=f"has more than {len(PNG) - 1} bytes.*raise max_bytes"):
        load_image(picture, max_bytes=len(PNG) - 1)
    with pytest.raises(DataError, match="has 3 x 2 pixels, more than 5.*raise max_pixels"):
        load_image(picture, max_pixels=5)


def test_a_decompression_bomb_is_refused_before_it_is_decoded():
    small = encoded(Image.new("1", (20_000, 20_000)))
    assert len(small) < 100_000
    with pytest.raises(DataError, match="larger than Pillow opens|has 20,000 x 20,000 pixels"):
        decode_image(small, "it")
    with pytest.raises(DataError, match="raise PIL.Image.MAX_IMAGE_PIXELS as well as max_pixels"):
        decode_image(small, "it", max_pixels=10**9)


@settings(deadline=None, max_examples=200)
@given(st.sampled_from(["PNG", "JPEG", "GIF", "WEBP", "TIFF", "BMP"]), st.data())
def test_a_damaged_picture_loads_or_is_refused_in_a_sentence(kind: str, data: st.DataObject):
    whole = bytearray(encoded(np.resize(PIXELS, (8, 8, 3)), kind))
    for place, value in data.draw(st.lists(st.tuples(st.integers(0, len(whole) - 1), st.integers(0, 255)), max_size=4)):
        whole[place] = value
    cut = data.draw(st.integers(0, len(whole)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow warns of what it reads over
        try:
            outcome: Any = decode_image(bytes(whole[:cut]), "it", max_pixels=10**6)
        except DataError as error:
            outcome = str(error)
    assert outcome.startswith("The picture it ") if isinstance(outcome, str) else outcome.dtype == torch.uint8


# --- addresses -----------------------------------------------------------------------------------------------------


class Server(ThreadingHTTPServer):
    """A server that says nothing of clients that no longer wait for its answer."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


@pytest.fixture
def serve() -> Iterator[Callable[[Callable[[Any], None]], str]]:
    """Function (what to answer) -> the address of a server on this machine."""
    servers = []

    def start(answer: Callable[[Any], None]) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                answer(self)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        server = Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}/a picture.png"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def answer_with(data: bytes, *, status: int = 200, length: int | None = None, **headers: str) -> Callable[[Any], None]:
    def answer(handler: Any) -> None:
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(data) if length is None else length))
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(data)

    return answer


def test_an_address_is_fetched_and_names_the_client(serve: Any):
    seen = []

    def answer(handler: Any) -> None:
        seen.append((handler.path, handler.headers["User-Agent"]))
        answer_with(PNG)(handler)

    assert load_image(serve(answer)).permute(1, 2, 0).tolist() == PIXELS.tolist()
    assert seen[0][0] == "/a%20picture.png"
    assert seen[0][1].startswith("torchpipe/")


def test_one_setting_refuses_addresses_and_nothing_is_fetched(serve: Any):
    seen = []
    address = serve(lambda handler: seen.append(handler.path))
    for location in (address, address.replace("http", "HTTP")):
        with pytest.raises(DataError, match="is at a remote address, and allow_remote=False refuses those"):
            load_image(location, allow_remote=False)
        with pytest.raises(DataError, match="allow_remote=False"):
            ImageReader(allow_remote=False).image(location)
    assert seen == []


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (answer_with(b"", status=404), "can't be downloaded: the server answered 404"),
        (answer_with(b"<html>"), "is not an image file"),
        (answer_with(BIG[:500], length=1900), "was cut short: 1,400 bytes are missing"),
        (answer_with(b"\0" * 3000), "has more than 2,000 bytes"),
        (answer_with(b"", status=302, Location="file:///etc/hostname"), "can't be downloaded: .*not allowed"),
        (answer_with(b"", status=302, Location="ftp://127.0.0.1/a.png"), "can't be downloaded: unknown url type: ftp"),
    ],
)
def test_an_answer_that_is_no_picture_is_refused(serve: Any, answer: Any, sentence: str):
    with pytest.raises(DataError, match=sentence):
        load_image(serve(answer), max_bytes=2000)


def test_a_redirection_to_another_page_is_followed(serve: Any):
    target = serve(answer_with(PNG)).replace(" ", "%20")
    assert load_image(serve(answer_with(b"", status=302, Location=target))).shape == (3, 2, 3)


@pytest.mark.parametrize("drip", [False, True])
def test_a_server_that_does_not_answer_in_time_is_given_up(serve: Any, drip: bool):
    done = threading.Event()

    def answer(handler: Any) -> None:
        if drip:
            answer_with(b"", length=10**6)(handler)
        for _ in range(1000):
            if done.wait(0.02):
                return
            if drip:
                try:
                    handler.wfile.write(b"\0")
                except OSError:
                    return

    address = serve(answer)
    try:
        with pytest.raises(DataError, match="can't be downloaded: it did not come within 0.2 seconds"):
            load_image(address, timeout=0.2)
    finally:
        done.set()


def dripping_headers(handler: Any) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
    for number in range(100):
        handler.wfile.write(b"X-%d: 1\r\n" % number)
        time.sleep(0.05)


def slow_redirections(handler: Any) -> None:
    time.sleep(0.15)
    answer_with(b"", status=302, Location=f"{handler.path}0")(handler)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # the servers' own
@pytest.mark.parametrize("answer", [dripping_headers, slow_redirections])
def test_headers_and_redirections_count_against_the_time(serve: Any, answer: Any):
    with pytest.raises(DataError, match="can't be downloaded: it did not come within 0.3 seconds"):
        load_image(serve(answer).replace(" ", ""), timeout=0.3)


def test_tls_is_spoken_within_the_time_too():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"https://127.0.0.1:{silent.getsockname()[1]}/a.png"
        with pytest.raises(DataError, match="can't be downloaded: it did not come within 0.2 seconds"):
            load_image(address, timeout=0.2)


def test_a_size_beyond_the_limit_is_believed_before_it_is_sent(serve: Any):
    with pytest.raises(DataError, match="has more than 2,000 bytes"):
        load_image(serve(answer_with(PNG, length=10**12)), max_bytes=2000)


@pytest.mark.parametrize(
    "address", ["http://[::1/a.png", "http://\ud800/a.png", "http://a b/", "http://.../", "http://a\nb/"]
)
def test_an_address_that_is_none_is_refused(address: str):
    with pytest.raises(DataError, match="can't be downloaded: "):
        load_image(address)


def test_what_a_server_writes_into_a_sentence_stays_one_line_of_text(serve: Any):
    def answer(handler: Any) -> None:
        handler.wfile.write(b"HTTP/1.1 404 \x1b[31mred\x07\r\nContent-Length: 0\r\n\r\n")

    with pytest.raises(DataError, match=r"the server answered 404 \(\\x1b\[31mred\\x07\)\.$"):
        load_image(serve(answer))
    # urllib's own sentence about a loop has three lines
    with pytest.raises(DataError, match=r"infinite loop\. The last 30x error message was: Found\)\.$"):
        load_image(serve(answer_with(b"", status=302, Location="/a%20picture.png")))


@pytest.mark.parametrize(
    "setting",
    [
        {"timeout": 0},
        {"timeout": -1},
        {"timeout": None},
        {"timeout": "1"},
        {"timeout": float("nan")},
        {"timeout": float("inf")},
        {"max_bytes": 0},
        {"max_bytes": None},
        {"max_pixels": "all"},
        {"max_pixels": True},
        {"allow_remote": "false"},
        {"allow_remote": None},
    ],
)
def test_settings_that_can_not_be_used_are_refused(picture: Path, setting: dict[str, Any]):
    (name,) = setting
    with pytest.raises(ConfigError, match=f"{name}=.* must be (a number above 0|True or False)"):
        load_image(picture, **setting)


def test_an_address_without_a_server_is_refused(serve: Any):
    with pytest.raises(DataError, match="'http://127.0.0.1:1/a.png' can't be downloaded: .*Connection refused"):
        load_image("http://127.0.0.1:1/a.png")
    with pytest.raises(DataError, match="can't be downloaded"):
        load_image("http://")


# --- pictures of rows ----------------------------------------------------------------------------------------------


def test_a_reader_takes_every_form_that_rows_have(picture: Path):
    reader = image_reader(str(picture.parent), True)
    for value in (
        "picture.png",
        Path("picture.png"),
        str(picture),
        PNG,
        {"bytes": PNG, "path": None},
        {"bytes": None, "path": "picture.png"},
        f"data:image/png;base64,{base64.b64encode(PNG).decode()}",
    ):
        assert reader.image(value).permute(1, 2, 0).tolist() == PIXELS.tolist()
    for decoded in (torch.ones(3, 2, 2), Image.new("RGB", (2, 2))):
        assert reader.image(decoded) is decoded


def test_a_string_is_one_picture_and_never_a_list_of_characters(picture: Path):
    reader = image_reader(picture.parent, True)
    assert len(reader.images("picture.png", "image")) == 1
    assert len(reader.images(["picture.png", PNG], "image")) == 2
    assert reader.images(None, "image") == reader.images("", "image") == reader.images([], "image") == []


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (3, r"Column 'photo': A picture is a path, an address, .*; this is a int \(3\)"),
        (np.ones((2, 2, 3)), "this is a ndarray"),
        ({"url": "a.png"}, "this is a dict"),
        ({"bytes": None, "path": None}, "this is a NoneType"),
        ([PNG, None], "Column 'photo', picture 1: A picture is a path"),
        ([""], "Column 'photo', picture 0: The picture's path is empty"),
        ("no.png", "Column 'photo': The picture 'no.png' does not exist"),
        (b"no", "Column 'photo': The picture of 2 bytes is not an image file"),
    ],
)
def test_what_is_no_picture_is_refused_with_its_column(value: Any, sentence: str):
    with pytest.raises(DataError, match=sentence):
        ImageReader().images(value, "photo")


def test_settings_of_a_reader_are_checked():
    with pytest.raises(ConfigError, match="image_dir=3 must be a folder's path"):
        image_reader(3, True)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ConfigError, match="allow_remote='no' must be True or False"):
        image_reader(None, "no")  # pyright: ignore[reportArgumentType]
