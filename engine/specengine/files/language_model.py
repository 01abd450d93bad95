"""Files that llama.cpp survives: what may be loaded as a target, a draft model or a vocabulary."""

from __future__ import annotations

from pathlib import Path

from specengine.core.errors import ModelFileError
from specengine.files.fatal_settings import fatal_setting
from specengine.files.fatal_vocabulary import fatal_vocabulary
from specengine.files.gguf import GGUF, read_gguf
from specengine.files.odd_files import kind_of_odd_file, why_no_draft, why_no_target


def read_language_model(path: Path) -> GGUF:
    """`read_gguf` of a model that llama.cpp runs; raises ModelFileError for other kinds, too."""
    gguf = read_gguf(path)
    if kind := kind_of_odd_file(gguf):
        raise ModelFileError(f"{path} is {kind}")
    if cause := fatal_setting(gguf):
        raise ModelFileError(f"{path} is damaged: {cause}; get it again")
    return gguf


def read_vocabulary(path: Path) -> GGUF:
    """`read_gguf` of a file whose vocabulary alone is wanted."""
    gguf = read_gguf(path)
    if cause := fatal_vocabulary(gguf):
        raise ModelFileError(f"{path} is damaged: {cause}; get it again")
    return gguf


def read_target(path: Path) -> GGUF:
    """`read_language_model` of one that can chat by itself, with a vocabulary of its own."""
    if kind := why_no_target(read_gguf(path)):
        raise ModelFileError(f"{path} is {kind}")
    return read_language_model(path)


def read_draft(path: Path) -> GGUF:
    """`read_language_model` of one that drafts: a model with a vocabulary, or a head."""
    if kind := why_no_draft(read_gguf(path)):
        raise ModelFileError(f"{path} is {kind}")
    return read_language_model(path)
