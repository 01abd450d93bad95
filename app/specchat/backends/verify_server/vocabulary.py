"""The vocabulary of a remote model: fetched once, kept as a GGUF file of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Event

from pydantic import ValidationError

from specchat.backends.trials import try_out
from specchat.backends.verify_server.client import VerifyServer
from specchat.config import locations
from specchat.printable import one_line
from specchat.wire.errors import RemoteError
from specengine.core.errors import ModelFileError, SpecEngineError
from specengine.core.events import Progress
from specengine.files.language_model import read_vocabulary
from specengine.files.vocabulary_file import Vocabulary, write_vocabulary
from specengine.llama.model import LlamaModel


async def fetch_vocabulary(server: VerifyServer, fingerprint: str) -> Path:
    """The file of the vocabulary with this fingerprint. Raises RemoteError."""
    path = locations.cache_dir() / "vocabularies" / f"{fingerprint}.gguf"
    if not path.exists():
        document = await server.vocabulary(fingerprint)
        try:
            write_vocabulary(path, Vocabulary.model_validate_json(document))
        except (ValidationError, SpecEngineError, OSError) as error:
            cause = one_line(str(error))[:200]
            raise RemoteError(
                f"the vocabulary of {server.address.base} cannot be kept: {cause}"
            ) from None
    return path


def try_vocabulary(path: Path, on_event: Callable[[Progress], None], cancel: Event) -> None:
    """As `try_out`: the server may be anybody's. Raises ModelFileError, CancelledError."""
    try:
        vocabulary = read_vocabulary(path)
    except ModelFileError:
        return  # loading it says so, and deletes it
    try_out(vocabulary, vocab_only=True, on_event=on_event, cancel=cancel)


def load_vocabulary(path: Path, fingerprint: str) -> LlamaModel:
    """The model without weights that encodes and decodes as the target does.

    Raises RemoteError if it turns out to be another one: then it is deleted.
    """
    try:
        model = LlamaModel(path, vocab_only=True)
    except SpecEngineError as error:
        path.unlink(missing_ok=True)
        raise RemoteError(f"the target's vocabulary cannot be used: {error}") from error
    if model.vocab.fingerprint != fingerprint:
        model.close()
        path.unlink(missing_ok=True)
        raise RemoteError("the vocabulary that the server sent is not that of its model")
    return model
