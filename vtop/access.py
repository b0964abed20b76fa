"""How vtop gets into a server: a key or a password, headers, certificates. The scraper and the load use the same."""

from __future__ import annotations

import base64
import os
import re
import ssl
import stat
from dataclasses import dataclass

from vtop.errors import VtopError


@dataclass(frozen=True, slots=True, repr=False)  # no repr: it would show the key
class Access:
    """How a person lets vtop in. proxy: a URL, "" for none, None for what the environment says; the load uses none."""

    api_key: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    ca_file: str | None = None
    insecure: bool = False
    basic: tuple[str, str] | None = None
    proxy: str | None = None

    @property
    def authorization(self) -> str | None:
        """The header's value: of the key, else of name and password."""
        if self.api_key is not None:
            return f"Bearer {self.api_key.strip()}"
        return f"Basic {self._pair(self.basic)}" if self.basic is not None else None

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must not be shown or recorded, the longest first: one may hold another. One or two characters are no
        secret, and would riddle every text."""
        found = [self.api_key or "", *(value for _, value in self.headers)]
        if self.basic is not None:
            found += [self.basic[1], self._pair(self.basic)]
        return longest_first(found)

    @property
    def recognisable(self) -> list[str]:
        """The secrets that can be struck out of anything: long, and unlike a word that may stand there by chance."""
        values = [self.api_key or "", *(value for _, value in self.headers)]
        if self.basic is not None:
            values += [self.basic[1], self._pair(self.basic)]
        found = [word for value in values for word in (value.strip(), value.strip().rpartition(" ")[2])]
        return [word for word in found if len(word) >= 8 and not re.fullmatch(r"[a-z_:./ -]+|[\d.]+", word)]

    def trust(self) -> ssl.SSLContext | None:
        """What an https server's certificate is held against; None: the usual authorities. Raises VtopError."""
        if self.insecure:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # reading the usual certificates takes 20 ms
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            return context
        if self.ca_file is None:
            return None
        try:
            if stat.S_ISFIFO(os.stat(self.ca_file).st_mode):
                raise VtopError(
                    f"{self.ca_file}: cannot be used as --ca-file (a pipe)"
                )  # it would be waited at for ever
            return ssl.create_default_context(cafile=self.ca_file)
        except OSError as error:  # ssl.SSLError is one
            why = "no certificates in PEM form" if isinstance(error, ssl.SSLError) else error.strerror
            raise VtopError(f"{self.ca_file}: cannot be used as --ca-file ({why})") from None

    @staticmethod
    def _pair(basic: tuple[str, str]) -> str:
        return base64.b64encode(":".join(basic).encode()).decode()


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A server and the way into it."""

    url: str  # its root
    access: Access = Access()


def longest_first(secrets: list[str]) -> tuple[str, ...]:
    return tuple(sorted({one.strip() for one in secrets if len(one.strip()) > 2}, key=len, reverse=True))


def socket_path(url: str) -> str | None:
    """The path of a Unix socket that a server's URL names (unix:///run/server.sock); None of any other URL."""
    return url.removeprefix("unix://") if url.startswith("unix:///") else None
