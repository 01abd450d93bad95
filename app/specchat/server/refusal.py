"""How a request is refused: a status, a code for programs, one line for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.responses import JSONResponse

from specchat.errors import SpecchatError

_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}


class Refusal(SpecchatError):  # noqa: N818
    """Raised by handlers; becomes `{"error": {"code", "message", "type", "param", …}}`.

    `type` is OpenAI's word for the status; `param` the field of the request that is wrong, or None.
    """

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
        **details: Any,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers
        kind = "server_error" if status >= 500 else _TYPES.get(status, "invalid_request_error")
        error = {"code": code, "message": message, "type": kind, "param": param}
        self.body = {"error": {**error, **details}}

    def response(self) -> JSONResponse:
        return JSONResponse(self.body, self.status, self.headers)
