"""Generated cases are the same in every run, so that a change is judged by what it changes; a certificate for TLS."""

from __future__ import annotations

import gc
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from vtop import faults

settings.register_profile("vtop", derandomize=True, deadline=None)
settings.load_profile("vtop")


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for 127.0.0.1, which signs itself, and its key, in one file."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed: no certificate to test with")
    pem = tmp_path_factory.mktemp("tls") / "both.pem"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=vtop"
    more = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(pem), "-out", f"{pem}.crt"]
    subprocess.run([*command.split(), *more], check=True, capture_output=True)
    pem.write_text(pem.read_text() + Path(f"{pem}.crt").read_text())
    return pem


@pytest.fixture(autouse=True)
def no_fault_of_vtops_own(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A boundary that keeps the watching alive must not hide a fault from the tests: those that mean one clear it."""
    state = tmp_path_factory.getbasetemp() / "state"
    monkeypatch.setenv("XDG_STATE_HOME", str(state))
    (state / "vtop" / "screen.json").unlink(missing_ok=True)  # how the screen of another test was left
    faults.told.clear()
    yield
    gc.unfreeze()  # a screen's start freezes what it made, and Hypothesis would not see who holds an object
    assert not faults.told, faults.told
