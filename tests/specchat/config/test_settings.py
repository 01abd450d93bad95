"""Settings: which source wins, and how a bad value is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from specchat.config import locations
from specchat.config.settings import load_settings
from specchat.errors import SpecchatError


@pytest.fixture(autouse=True)
def settings_file(own_home: Path) -> Path:
    file = locations.settings_file()
    file.parent.mkdir()
    return file


def test_without_a_file_the_defaults_hold() -> None:
    settings = load_settings()
    assert (settings.profile, settings.threads, settings.offline) == ("tiny", None, False)
    assert settings.sampling_overrides == {}


def test_a_variable_outranks_the_file_and_a_flag_outranks_both(
    settings_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings_file.write_text("# mine\nprofile = 'a'\nthreads = 1\nctx = 100 # small\n")
    monkeypatch.setenv("SPECCHAT_PROFILE", "b")
    monkeypatch.setenv("SPECCHAT_THREADS", "2")
    settings = load_settings(threads=3, ctx=None)
    assert (settings.ctx, settings.profile, settings.threads) == (100, "b", 3)


def test_sampling_is_merged_setting_by_setting(
    settings_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings_file.write_text("[sampling]\ntop_k = 5\ntop_p = 0.5\n[sampling.logit_bias]\n7=-inf\n")
    monkeypatch.setenv("SPECCHAT_SAMPLING__TOP_K", "6")
    settings = load_settings(sampling={"top_p": 0.6})
    assert settings.sampling_overrides == {
        "top_k": 6,
        "top_p": 0.6,
        "logit_bias": {7: float("-inf")},
    }
    assert settings.sampling.temperature == 0.8


def test_an_empty_variable_is_no_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECCHAT_PROFILE", "")
    assert load_settings().profile == "tiny"


def test_a_file_with_a_byte_order_mark_is_read(settings_file: Path) -> None:
    settings_file.write_bytes(b"\xef\xbb\xbfprofile = 'a'\r\n")
    assert load_settings().profile == "a"


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("threads = 'many'", "threads: "),
        ("[sampling]\ntop_k = -1", "sampling.top_k: Input should be greater than or equal to 0"),
        ("[sampling.logit_bias]\n7 = nan", "sampling.logit_bias: token 7"),
        ("sampling = 3", "sampling: "),
        ("them = 'x'", "them: there is no such setting, did you mean 'theme'?"),
        ("[sampling]\ntopk = 1", "sampling.topk: there is no such setting, did you mean 'top_k'?"),
        ("[colours]\nx = 1", "colours: there is no such setting (known: profile, sampling, "),
        ("profile = ", "Invalid value (at "),
        ("\xff\xfe\0", "'utf-8' codec"),
    ],
)
def test_a_bad_file_is_told_in_one_line_with_file_and_key(
    settings_file: Path, content: str, complaint: str
) -> None:
    settings_file.write_text(content, "latin-1")
    with pytest.raises(SpecchatError) as error:
        load_settings()
    assert str(error.value).startswith(f"{settings_file}: {complaint}")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("SPECCHAT_THREADS", "0"),
        ("SPECCHAT_OFFLINE", "maybe"),
        ("SPECCHAT_SAMPLING__TOP_K", "-1"),
        ("SPECCHAT_SAMPLING__TOPK", "1"),
        ("SPECCHAT_SAMPLING", "{"),
    ],
)
def test_a_bad_variable_is_named(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(SpecchatError, match=f"^{variable}"):
        load_settings()


def test_a_bad_flag_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECCHAT_SAMPLING__MIN_P", "0.1")
    with pytest.raises(SpecchatError, match=r"^--min-p: .* got 7"):
        load_settings(sampling={"min_p": 7})


def test_a_folder_in_the_place_of_the_file_is_told(settings_file: Path) -> None:
    settings_file.mkdir()
    with pytest.raises(SpecchatError, match="cannot be read"):
        load_settings()
