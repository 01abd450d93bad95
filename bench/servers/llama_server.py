"""Starts and ends llama-server: out of the package `xllamacpp`, or a program that is named."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from typing import IO

import httpx
from pydantic import BaseModel, ValidationError

from servers import llama_server_child
from servers.child import free_port, last_words, read_log
from servers.llama_server_child import PeerModels
from specchat.benchmark.errors import BenchmarkError

NAME = "llama-server"
_PACKAGE = "xllamacpp"

_START_S = 600.0  # to load its models
_PATIENCE_S = 600.0  # for its next word
_END_S = 10.0
# Newer versions load a draft model and leave it idle unless they are told so; older ones, which
# know no such flag, pass over the variable.
_ENVIRONMENT = {"LLAMA_ARG_SPEC_TYPE": "draft-simple"}
_NEW_GROUP = getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)  # Windows: no Ctrl-C for it


class _Properties(BaseModel):
    """What `/props` says, as far as it matters here."""

    build_info: str | None = None


class PeerServer:
    """A llama-server, everything but `PeerModels` at its defaults."""

    def __init__(self, against: str, models: PeerModels) -> None:
        """Start it, to be waited for with `ready` and ended with `close`.

        `against`: `llama-server`, or the path of one. Raises BenchmarkError where there is none.
        """
        port = free_port()
        self._against = against
        command = _command(find_program(against), models, port)
        self._address = f"http://127.0.0.1:{port}"
        # Not a pipe, which nobody would read while it serves; appended to, since the position in
        # the file is shared with the process.
        self._log = tempfile.TemporaryFile("a+b", prefix="specchat-peer-")  # noqa: SIM115
        self._process = _start(command, self._log)
        self.about = "of an unknown version"
        """Its version, and what its library was built for as far as it tells."""

    async def ready(self) -> None:
        """Return when it has loaded its models. Raises BenchmarkError where it does not start."""
        deadline = time.monotonic() + _START_S
        async with self.client() as client:
            while not await self._is_healthy(client):
                if self._process.poll() is not None:
                    raise BenchmarkError(f"{NAME} does not start: {self.last_words()}")
                if time.monotonic() > deadline:
                    raise BenchmarkError(f"{NAME} is not ready after {_START_S:.0f} s")
                await asyncio.sleep(0.1)
            try:
                properties = _Properties.model_validate_json((await client.get("/props")).content)
            except (httpx.HTTPError, ValidationError) as error:
                raise BenchmarkError(
                    f"{self._against}: its /props are not those of a llama-server"
                ) from error
        # The package says both in its log, a program only its version, and where asked.
        told = re.search(r"^build_info: (.+)\nsystem_info: (.+)", read_log(self._log), re.MULTILINE)
        if told is not None:
            features = " ".join(re.findall(r"(\w+) = 1\b", told[2]))
            self.about = f"{told[1]}, built for {features}"
        elif properties.build_info:
            self.about = f"{NAME} {properties.build_info}"

    def client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(base_url=self._address, timeout=_PATIENCE_S, trust_env=False)

    def last_words(self) -> str:
        """As `child.last_words`."""
        return last_words(self._log)

    def close(self) -> None:
        self._process.terminate()
        try:
            self._process.communicate(timeout=_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
        self._log.close()

    async def _is_healthy(self, client: httpx.AsyncClient) -> bool:
        try:
            response = await client.get("/health")
        except httpx.TransportError:
            return False  # it does not listen yet
        return response.status_code == httpx.codes.OK


def require_program(against: str) -> None:
    """Raises BenchmarkError where there is none, or none that this machine can run."""
    program = find_program(against)
    if program is not None:
        process = _start([program, "--version"], subprocess.DEVNULL)
        process.kill()
        process.communicate()


def _start(command: list[str], log: int | IO[bytes]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            command,
            env=os.environ | _ENVIRONMENT,
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            start_new_session=True,  # Ctrl-C is for us alone
            creationflags=_NEW_GROUP,
        )
    except OSError as error:
        raise BenchmarkError(f"{command[0]} cannot be run: {error.strerror or error}") from error


def find_program(against: str) -> str | None:
    """The program to run; None stands for the package. Raises BenchmarkError where there is none.

    The package comes first, then a llama-server on PATH.
    """
    if against != NAME:
        if found := shutil.which(against):
            return found
        raise BenchmarkError(f"{against}: there is no such program")
    if importlib.util.find_spec(_PACKAGE) is not None:
        return None
    if found := shutil.which(NAME):
        return found
    raise BenchmarkError(
        f"there is no {NAME}: install the package with `pip install {_PACKAGE}`, or name the "
        "program by its path"
    )


def _command(program: str | None, models: PeerModels, port: int) -> list[str]:
    if program is None:
        return [sys.executable, llama_server_child.__file__, models.model_dump_json(), str(port)]
    threads = str(models.threads)
    draft = [] if models.draft is None else ["-md", str(models.draft)]
    return [
        *(program, "-m", str(models.target), *draft, "-c", str(models.n_ctx), "-np", "1"),
        *("-t", threads, "-tb", threads, "--host", "127.0.0.1", "--port", str(port)),
    ]
