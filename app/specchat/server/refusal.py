"""How a request is refused: a status, a code for programs, one line for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.responses import JSONResponse

from specchat.errors import SpecchatError


class Refusal(SpecchatError):  # noqa: N818
    """Raised by handlers; becomes the response `{"error": {"code", "message", …}}`."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        headers: Mapping[str, str] | None = None,
        **details: Any,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers
        self.body = {"error": {"code": code, "message": message, **details}}

    def response(self) -> JSONResponse:
        return JSONResponse(self.body, self.status, self.headers)
