import pytest

from specchat.errors import SpecchatError
from specchat.wire.address import is_loopback, is_url, parse_address


@pytest.mark.parametrize("text", ["http://h:1", "http://h:1/", "http://h:1/v1", "http://h:1/v1/"])
def test_however_it_is_written_it_is_one_server(text: str) -> None:
    assert parse_address(text).url("/v1/models") == "http://h:1/v1/models"


def test_a_path_before_the_version_stays() -> None:
    address = parse_address("https://api.example/openai/v1")
    assert address.url("/v1/models") == "https://api.example/openai/v1/models"


def test_ipv6_and_upper_case() -> None:
    address = parse_address("HTTP://[::1]:80/")
    assert address.base == "http://[::1]:80"
    assert address.is_loopback


@pytest.mark.parametrize(
    "text", ["h:80", "ftp://h", "http://", "http://u:secret@h", "http://h/?k=1", "http://h:99999"]
)
def test_what_is_no_address_is_refused_without_quoting_a_secret(text: str) -> None:
    with pytest.raises(SpecchatError) as caught:
        parse_address(text)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("localhost", True),
        ("a.localhost", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("127.0.0.1.example", False),
        ("0.0.0.0", False),
        ("10.0.0.1", False),
        ("localhost.example", False),
    ],
)
def test_only_this_computer_is_loopback(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


def test_models_and_files_are_no_addresses() -> None:
    assert is_url("https://h")
    assert not is_url("qwen2.5-7b")
    assert not is_url("/models/http.gguf")
