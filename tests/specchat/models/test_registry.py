"""The registry file: what ships is sound, a person's own is merged, mistakes are named."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from specchat.models.errors import RegistryError
from specchat.models.registry import Model, load_registry, shipped_file
from specchat.models.sources import packaged
from support.registry_models import kept_by_lm_studio


@pytest.fixture
def own(tmp_path: Path) -> Path:
    return tmp_path / "models.toml"


def test_the_embedded_default_needs_nothing_but_the_package_index() -> None:
    registry = load_registry()
    tiny = registry.profile("tiny")
    assert (tiny.target, tiny.draft, tiny.system) == ("smollm2-135m", "auto", "")
    model = registry.model(tiny.target)
    assert model.bytes == 98_362_432
    assert [source.partition(":")[0] for source in model.sources] == ["pypi"]


def test_pulling_the_laptop_profile_brings_its_alternative_drafter() -> None:
    names = [model.name for model in load_registry().models_of("laptop")]
    assert names == ["qwen2.5-coder-1.5b", "qwen2.5-coder-0.5b"]


def test_every_shipped_model_without_a_hash_comes_from_a_hub_that_states_one() -> None:
    for model in load_registry().models.values():
        assert (model.sha256 is None) == (model.bytes is None)
        if model.sha256 is None:
            assert all(source.startswith("hf:") for source in model.sources)


def test_what_comes_with_the_program_is_what_the_registry_says() -> None:
    models = load_registry().models.values()
    brought = [(m, path) for m in models for path in map(packaged, m.sources) if path]
    assert [model.name for model, _ in brought] == ["smollm2-135m-eagle3"]
    for model, path in brought:
        content = path.read_bytes()
        assert (len(content), hashlib.sha256(content).hexdigest()) == (model.bytes, model.sha256)


def test_the_wheel_carries_the_file_of_the_checkout() -> None:
    root = Path(__file__).parents[3]
    assert shipped_file() == root / "models.toml"
    assert '"models.toml" = "specchat/models.toml"' in (root / "pyproject.toml").read_text()


def test_an_own_entry_is_merged_field_by_field(own: Path) -> None:
    own.write_text("[profiles.laptop]\nn_ctx = 16384\nsampling = { temperature = 0.1 }\n")
    profile = load_registry(own).profile("laptop")
    assert (profile.n_ctx, profile.target) == (16384, "qwen2.5-coder-1.5b")
    assert profile.sampling.model_dump(exclude_unset=True) == {
        "temperature": 0.1,
        "top_k": 20,
        "top_p": 0.8,
    }


def test_own_models_and_profiles_are_added(own: Path) -> None:
    own.write_text(
        """
        [models.mine]
        description = "Mine"
        licence = "MIT"
        sources = ["https://example.org/mine.gguf"]
        [profiles.mine]
        description = "Mine alone"
        target = "mine"
        """
    )
    registry = load_registry(own)
    assert registry.model("mine").file_name == "mine.gguf"
    assert registry.profile("mine").models == ("mine",)
    assert "tiny" in registry.profiles


def test_no_own_file_is_no_error(own: Path) -> None:
    assert load_registry(own) == load_registry()


MINE = '[models.mine]\ndescription = ""\nlicence = "MIT"\nsources = ["{}"]\n'


@pytest.mark.parametrize(
    ("content", "cause"),
    [
        ("[models.x", "Expected ']' at the end of a table declaration"),
        ("[models.x]\nlicence = 'MIT'", "models.x.description: Field required"),
        (
            MINE.format("ftp://x/y.gguf"),
            "models.mine.sources.0: 'ftp://x/y.gguf' is not a valid source",
        ),
        (MINE.format("hf:owner/model.gguf"), "write hf:OWNER/REPOSITORY/FILE.gguf"),
        (MINE.format("pypi:package/file"), "write pypi:PACKAGE==VERSION/PATH"),
        (MINE.format("file:relative"), "write file:///PATH"),
        (MINE.format("https://x") + "sha256 = 'ab'", "models.mine.sha256: String should match"),
        (MINE.format("https://x") + "bytes = 0", "models.mine.bytes: Input should be greater"),
        (MINE.format("https://x") + "size = 1", "models.mine.size: Extra inputs"),
        ("models = 3", "models: Input should be"),
        ("models.mine = 3", "models.mine: Input should be"),
        ("[profiles.tiny]\ntarget = 'smollm'", "did you mean 'smollm2-135m'?"),
        ("[profiles.tiny]\nsampling.temprature = 1", "profiles.tiny.sampling.temprature"),
        ("[profiles.tiny]\nn_ctx = 1", "profiles.tiny.n_ctx: Input should be greater"),
        ("[profiles.'../x']\ntarget='smollm2-135m'\ndescription=''", "name: String should match"),
        ("[model.x]\n", "model: Extra inputs"),
        ("\xff\xfe\0", "'utf-8' codec"),
    ],
)
def test_a_mistake_is_named_with_file_and_entry(own: Path, content: str, cause: str) -> None:
    own.write_text(content, "latin-1")
    with pytest.raises(RegistryError) as caught:
        load_registry(own)
    message = str(caught.value)
    assert message.startswith(f"{own}: ")
    assert cause in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("smolm2-135m", "did you mean 'smollm2-135m'?"),
        ("Qwen2.5-Coder-1.5B", "did you mean 'qwen2.5-coder-1.5b'?"),
        ("zzz", "known: smollm2-135m, "),
    ],
)
def test_unknown_names_get_the_nearest(name: str, answer: str) -> None:
    with pytest.raises(RegistryError, match="there is no model") as caught:
        load_registry().model(name)
    assert answer in str(caught.value)


def test_unknown_profiles_and_both(own: Path) -> None:
    registry = load_registry()
    with pytest.raises(RegistryError, match="no profile 'laptp', did you mean 'laptop'"):
        registry.profile("laptp")
    with pytest.raises(RegistryError, match="no model or profile 'laptp', did you mean 'laptop'"):
        registry.models_of("laptp")


def test_resolving_names_paths_and_files_of_other_programs(tmp_path: Path) -> None:
    registry = load_registry()
    assert isinstance(registry.resolve("smollm2-135m"), Model)
    path = tmp_path / "own.gguf"
    path.write_bytes(b"GGUF")
    assert registry.resolve(str(path)) == path
    kept = kept_by_lm_studio(tmp_path, b"GGUF", "a.gguf")
    assert registry.resolve("owner/repo/a.gguf") == kept
    with pytest.raises(RegistryError, match=r"there is no file .*missing\.gguf"):
        registry.resolve(str(tmp_path / "missing.gguf"))
    with pytest.raises(RegistryError, match="did you mean 'smollm2-135m'"):
        registry.resolve("smollm2")


def test_a_folder_is_named_as_what_it_is(tmp_path: Path) -> None:
    with pytest.raises(RegistryError, match="is a folder: name a GGUF file in it"):
        load_registry().resolve(str(tmp_path))


@pytest.mark.parametrize("name", ["~no-such-person/x.gguf", "a" * 5000, ""])
def test_what_can_be_no_path_is_an_unknown_name(name: str) -> None:
    with pytest.raises(RegistryError, match="there is no"):
        load_registry().resolve(name)


def test_a_file_with_a_byte_order_mark(own: Path) -> None:
    own.write_text("[profiles.tiny]\nn_ctx = 512", encoding="utf-8-sig")
    assert load_registry(own).profile("tiny").n_ctx == 512
