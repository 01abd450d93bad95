"""Every error the engine raises: one line that says what is wrong and what to do about it."""


class SpecEngineError(Exception):
    """Base of all errors of the engine. `str(error)` is one line fit for a person."""


class ModelFileError(SpecEngineError):
    """A model file cannot be used: truncated, not GGUF, too large, refused by llama.cpp."""


class OutOfMemoryError(ModelFileError):
    """llama.cpp found no memory for a model or its context, on a GPU or in main memory."""


class VocabMismatchError(SpecEngineError):
    """Two models do not share a vocabulary; the message names the first token that differs."""


class ContextFullError(SpecEngineError):
    """The token sequence does not fit into the context."""


class TemplateError(SpecEngineError):
    """A chat template is missing, invalid, or exceeded its limits."""


class GrammarError(SpecEngineError):
    """A grammar or JSON schema cannot be used."""


class SamplingError(SpecEngineError):
    """A sampling setting is out of range, or logits cannot be sampled (NaN, everything masked)."""


class NothingToDrawError(SamplingError):
    """Every token is masked: by the grammar, the logit bias, or a vocabulary without it."""


class BackendError(SpecEngineError):
    """llama.cpp cannot be loaded, or a call into it failed."""


class DraftError(SpecEngineError):
    """A drafter proposed something that cannot be verified; costs its drafts, not the answer."""


class CancelledError(SpecEngineError):
    """The person cancelled; caches are valid and hold what `Context.tokens` says."""
