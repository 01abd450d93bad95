"""A GGUF model loaded by llama.cpp."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from specengine.core.cancel import AbortFlag
from specengine.core.errors import CancelledError, ModelFileError
from specengine.files.language_model import read_language_model, read_vocabulary
from specengine.files.shown import shown_reason
from specengine.llama import huge_pages, library
from specengine.llama.backends import device_list
from specengine.llama.placement import Share
from specengine.llama.vocab import LlamaVocab


class LlamaModel:
    """Weights and vocabulary. Contexts made from a model must be closed before it."""

    def __init__(
        self,
        path: Path,
        *,
        use_extra_bufts: bool = True,
        gpu: Sequence[Share] = (),
        vocab_only: bool = False,
        own_heads: bool = False,
        abort: AbortFlag | None = None,
        on_progress: Callable[[float], None] | None = None,
    ) -> None:
        """Load `path`; llama.cpp sees it once its header has been checked.

        `use_extra_bufts` repacks weights for the CPU's fast kernels (AMX among them); the probe
        says whether that works here. `gpu` says which GPUs compute how many of its last layers,
        all others are left alone. `vocab_only` leaves the weights out, `own_heads` loads
        the heads for multi-token prediction that a file may have. `on_progress` gets the
        loaded fraction, 0 to 1.
        Raises ModelFileError, with llama.cpp's own reason or for a model that cannot write,
        OutOfMemoryError, and CancelledError when `abort` is set.
        """
        (read_vocabulary if vocab_only else read_language_model)(path)
        llama = library.load()
        self.path = path
        self._llama = llama
        params = llama.llama_model_default_params()
        params.use_extra_bufts = use_extra_bufts
        params.n_gpu_layers = sum(share.n_layers for share in gpu)
        devices = device_list(llama, [share.device for share in gpu])
        params.devices = ctypes.cast(devices, ctypes.c_void_p)
        split = (ctypes.c_float * llama.llama_max_devices())(*(share.n_layers for share in gpu))
        params.tensor_split = split
        params.vocab_only = vocab_only
        params.load_mtp = own_heads

        failed: list[BaseException] = []

        def report(fraction: float, _: object) -> bool:
            try:
                if fraction == 0:  # the room for the weights is there, and empty
                    huge_pages.ask()
                if on_progress is not None:
                    on_progress(fraction)
            except BaseException as error:  # it cannot pass through C
                failed.append(error)
            return not (failed or (abort is not None and abort.is_set()))

        params.progress_callback = llama.llama_progress_callback(report)
        library.clear_errors()
        self.handle: Any = llama.llama_model_load_from_file(os.fsencode(path), params)
        if failed:
            self.close()
            raise failed[0]
        if not self.handle:
            if abort is not None and abort.is_set():
                raise CancelledError(f"loading {path.name} was cancelled")
            raise library.failure(f"llama.cpp cannot load {path}: {_reason()}")
        if not self._writes_token_by_token():
            self.close()
            raise ModelFileError(
                f"{path} is not a model that writes text token by token: use a chat model"
            )
        self.vocab = LlamaVocab(llama.llama_model_get_vocab(self.handle))
        if missing := self.vocab.missing_at_ends:
            self.close()
            raise ModelFileError(
                f"{path} is damaged: its texts begin or end with a {missing} token, but the file "
                "does not say which; get it again"
            )

    @property
    def n_ctx_train(self) -> int:
        """Context length the model was trained for, in tokens."""
        return int(self._llama.llama_model_n_ctx_train(self.handle))

    @property
    def chat_template(self) -> str | None:
        """The Jinja chat template that the file carries."""
        template = self._llama.llama_model_chat_template(self.handle, None)
        return template.decode("utf-8", "replace") if template else None

    @property
    def is_recurrent(self) -> bool:
        """Whether the model keeps a state that cannot drop a suffix."""
        return bool(
            self._llama.llama_model_is_recurrent(self.handle)
            or self._llama.llama_model_is_hybrid(self.handle)
        )

    def _writes_token_by_token(self) -> bool:
        """llama.cpp ends the process where another kind of model is decoded like one that does."""
        return bool(
            self._llama.llama_model_has_decoder(self.handle)
            and not self._llama.llama_model_has_encoder(self.handle)
            and not self._llama.llama_model_is_diffusion(self.handle)
        )

    def close(self) -> None:
        if self.handle:
            self._llama.llama_model_free(self.handle)
            self.handle = None

    def __enter__(self) -> LlamaModel:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _reason() -> str:
    """Why loading failed: llama.cpp's first error line, those after it only say that it did."""
    first = next(iter(library.last_errors()), "it gave no reason")
    return shown_reason(first.rpartition("error loading model: ")[2])
