"""TLS: a certificate of one's own is believed where its file is named, and no other is."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from remote.delay_line import DelayProxy
from specchat.errors import SpecchatError
from specengine.core.events import Chunk
from support.remote_chat import ask, remote_runtime
from support.verify_server import running_server

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="makes certificates")


def certificate(folder: Path, name: str) -> tuple[Path, Path]:
    """For 127.0.0.1, signed by itself: its file and that of its key."""
    cert, key = folder / f"{name}.pem", folder / f"{name}.key"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
         "-nodes", "-days", "2", "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1",
         "-keyout", str(key), "-out", str(cert)],
        check=True,
        capture_output=True,
    )  # fmt: skip
    return cert, key


def over_tls(proxy: DelayProxy) -> str:
    return proxy.url.replace("http:", "https:")


async def test_a_certificate_of_ones_own_is_believed_and_another_one_never(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, others = certificate(tmp_path, "own"), certificate(tmp_path, "others")
    with (
        running_server(tiny_model, tls=own, places=1) as server,
        running_server(tiny_model, tls=others, places=1) as impostor,
        DelayProxy(server.url) as proxy,
    ):
        with pytest.raises(SpecchatError) as caught:
            async with remote_runtime(over_tls(proxy)):
                pass
        assert "CERTIFICATE_VERIFY_FAILED" in str(caught.value)
        assert "\n" not in str(caught.value)
        assert proxy.traffic.connections == 1  # it was not tried again

        monkeypatch.setenv("SSL_CERT_FILE", str(own[0]))

        def to_the_impostor(chunk: Chunk) -> None:
            if proxy.target != impostor.url:
                proxy.target = impostor.url
                proxy.cut()

        async with remote_runtime(over_tls(proxy)) as runtime:
            whole = await ask(runtime, max_tokens=30)
            before = proxy.traffic.connections
            cut = await ask(runtime, max_tokens=30, on_chunk=to_the_impostor)
        assert (whole.reason, len(whole.tokens)) == ("length", 30)
        # By default an answer waits for its server: not where somebody else answers.
        assert cut.reason == "error"
        assert "CERTIFICATE_VERIFY_FAILED" in str(cut.error)
        assert "\n" not in str(cut.error)
        assert cut.tokens == whole.tokens[: len(cut.tokens)]
        assert proxy.traffic.connections <= before + 3
