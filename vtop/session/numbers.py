"""What every number on the screen is: one table, which the help screen, the documents and a test read."""

from __future__ import annotations

from vtop.session.number import Number
from vtop.session.numbers_gpu import GPU
from vtop.session.numbers_kv import KV
from vtop.session.numbers_latencies import LATENCIES
from vtop.session.numbers_load import LOAD
from vtop.session.numbers_requests import REQUESTS
from vtop.session.numbers_servers import ENGINES, HEADER
from vtop.session.numbers_tokens import TOKENS
from vtop.session.numbers_ttft import TTFT

NUMBERS: tuple[Number, ...] = (*HEADER, *REQUESTS, *KV, *GPU, *TTFT, *TOKENS, *LATENCIES, *LOAD, *ENGINES)
