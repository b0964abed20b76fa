"""What a load asks the server before it begins: the model's name, its longest sequence, ids that are words to it.

A few small requests on connections of their own, by the standard library: none of this is measured.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import ssl
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard
from urllib.parse import urlsplit

from vtop.access import Endpoint, socket_path
from vtop.errors import VtopError
from vtop.load.http.server_errors import clean
from vtop.load.workload.phase import PlannedPhase
from vtop.load.workload.prompts import VOCABULARY, WORDS, CannotCount

TIMEOUT_S = 10.0
LIMIT_BYTES = 1 << 22
LONGEST_NAME = 1000  # characters of a model's id
LEAST_WORDS = 64  # of a vocabulary
MOST = 2**31  # a length in tokens, or a token's id, is less


class NotUp(VtopError):
    """The server does not answer, or says that it is not ready."""


@dataclass(frozen=True, slots=True)
class Model:
    name: str
    max_model_len: int | None

    def check(self, phases: Sequence[PlannedPhase]) -> None:
        """Raises VtopError for a phase whose requests are longer than the model takes."""
        for phase in phases:
            if self.max_model_len is None or phase.input is None or phase.output is None:
                continue
            if phase.input.high + phase.output.high > self.max_model_len:
                raise VtopError(
                    f"{phase.name}: {phase.input.high} tokens in and {phase.output.high} out are more than "
                    f"{self.name} takes ({self.max_model_len}); write in=… out=… that fit"
                )


def model(endpoint: Endpoint, wanted: str | None = None) -> Model:
    """The model that is served, or the one asked for. Raises NotUp, or VtopError when it lacks it."""
    status, said = _ask(endpoint, "GET", "/v1/models")
    if status in (401, 403):
        raise VtopError("the load needs the server's key: --api-key or VTOP_API_KEY")
    if status in (502, 503, 504):
        raise NotUp(f"/v1/models: {status}")
    rows = said.get("data") if status == 200 and isinstance(said, dict) else None
    rows = [row for row in rows if isinstance(row, dict) and _name(row)] if isinstance(rows, list) else []
    if not rows:
        raise VtopError(f"/v1/models: {status}, and no model in it; a load needs an OpenAI-compatible server")
    names = [str(row["id"]) for row in rows]
    if wanted is not None and wanted not in names:
        served = ", ".join(_clean(name, endpoint) for name in names[:5])
        raise VtopError(f"no model {wanted!r} there; it serves {served}")
    row = rows[names.index(wanted)] if wanted is not None else rows[0]
    longest = row.get("max_model_len")
    return Model(str(row["id"]), longest if _whole(longest) and 0 < longest < MOST else None)


def _name(row: dict[str, Any]) -> bool:
    """Whether a model's id can be sent back: text, and no half of a character in it."""
    name = row.get("id")
    return isinstance(name, str) and 0 < len(name) <= LONGEST_NAME and not any("\ud800" <= c <= "\udfff" for c in name)


def _whole(said: Any) -> TypeGuard[int]:
    return isinstance(said, int) and not isinstance(said, bool)


def vocabulary(endpoint: Endpoint, name: str) -> tuple[int, ...]:
    """Ids that the model's tokenizer makes of plain words, each one usable as a prompt's token."""
    status, said = _ask(endpoint, "POST", "/tokenize", {"model": name, "prompt": " " + " ".join(WORDS)})
    ids = said.get("tokens") if status == 200 and isinstance(said, dict) else None
    known = {id_ for id_ in ids if _whole(id_) and 0 <= id_ < MOST} if isinstance(ids, list) else set()
    return tuple(sorted(known)) if len(known) >= LEAST_WORDS else tuple(VOCABULARY)


def count_tokens(endpoint: Endpoint, name: str, text: str) -> int:
    """Prompt tokens of a chat whose one message is the text. Raises VtopError where the server cannot say."""
    body = {"model": name, "messages": [{"role": "user", "content": text}]}
    status, said = _ask(endpoint, "POST", "/tokenize", body)
    count = said.get("count") if status == 200 and isinstance(said, dict) else None
    if not _whole(count) or not 0 <= count < MOST:
        raise CannotCount(f"/tokenize: {status}; chat prompts of an exact length need it")
    return count


def _ask(endpoint: Endpoint, method: str, path: str, body: object | None = None) -> tuple[int, Any]:
    path_of_socket = socket_path(endpoint.url)
    parts = urlsplit(endpoint.url if path_of_socket is None else "http://localhost")
    assert parts.hostname is not None
    if path_of_socket is not None:
        connection: http.client.HTTPConnection = _OverSocket(path_of_socket)
    elif parts.scheme == "https":
        context = endpoint.access.trust()
        connection = http.client.HTTPSConnection(parts.hostname, parts.port or 443, timeout=TIMEOUT_S, context=context)
    else:
        connection = http.client.HTTPConnection(parts.hostname, parts.port or 80, timeout=TIMEOUT_S)
    access = endpoint.access
    headers = {"authorization": access.authorization} if access.authorization is not None else {}
    if body is not None:
        headers["content-type"] = "application/json"
    headers.update((name.lower(), value) for name, value in access.headers)
    late = _Deadline(connection)
    try:
        connection.request(method, parts.path + path, json.dumps(body) if body is not None else None, headers)
        answer = connection.getresponse()
        status, text = answer.status, _read(answer, endpoint.url + path)
        if late.passed.is_set():
            raise TimeoutError
    except ssl.SSLCertVerificationError as error:
        raise VtopError(f"{endpoint.url}: its certificate is not trusted (--ca-file or --insecure)") from error
    except (OSError, http.client.HTTPException) as error:
        if late.passed.is_set() or isinstance(error, TimeoutError):
            raise NotUp(f"{endpoint.url}{path}: no answer, or not all of it, in {TIMEOUT_S:g} s") from error
        if not isinstance(error, (OSError, http.client.IncompleteRead)):
            words = _clean(str(error), endpoint)
            raise VtopError(f"{endpoint.url}{path}: the answer is no HTTP ({words}); is this its port?") from error
        raise NotUp(f"{endpoint.url}{path}: {_clean(str(error), endpoint) or type(error).__name__}") from error
    finally:
        late.cancel()
        connection.close()
    try:
        return status, json.loads(text)
    except (ValueError, RecursionError):
        return status, None


class _OverSocket(http.client.HTTPConnection):
    """To a server that listens on a Unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=TIMEOUT_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(TIMEOUT_S)
        self.sock.connect(self._path)


class _Deadline:
    """Cuts a connection whose answer takes longer than TIMEOUT_S, however it dribbles: head, body or handshake."""

    def __init__(self, connection: http.client.HTTPConnection) -> None:
        self.passed = threading.Event()
        self._connection = connection
        self._timer = threading.Timer(TIMEOUT_S, self._cut)
        self._timer.daemon = True
        self._timer.start()

    def _cut(self) -> None:
        self.passed.set()
        if (line := self._connection.sock) is not None:
            with contextlib.suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)

    def cancel(self) -> None:
        self._timer.cancel()


def _read(answer: http.client.HTTPResponse, url: str) -> bytes:
    """The body. Raises VtopError for one that does not end."""
    body = b""
    while piece := answer.read1(1 << 16):
        body += piece
        if len(body) > LIMIT_BYTES:
            raise VtopError(
                f"{url}: more than {LIMIT_BYTES >> 20} MiB, not read any further; is this the port of the server?"
            )
    return body


def _clean(text: str, endpoint: Endpoint) -> str:
    """Text from the world without secrets, in a line that can do no harm to a terminal."""
    return clean(text, secrets=endpoint.access.secrets)
