"""What every number on the screen is: one table, which the help screen, the documents and a test read."""

from __future__ import annotations

from vtop.session.glossary.capacity import CAPACITY
from vtop.session.glossary.gpus import GPU
from vtop.session.glossary.kv import KV
from vtop.session.glossary.latencies import LATENCIES
from vtop.session.glossary.load import LOAD
from vtop.session.glossary.number import Number
from vtop.session.glossary.requests import REQUESTS
from vtop.session.glossary.servers import ENGINES, HEADER, SERVERS
from vtop.session.glossary.speculation import LORA, SPECULATION
from vtop.session.glossary.tokens import TOKENS
from vtop.session.glossary.ttft import TTFT

NUMBERS: tuple[Number, ...] = (
    *(*HEADER, *REQUESTS, *KV, *GPU, *TTFT, *TOKENS, *LATENCIES, *LOAD, *CAPACITY, *SERVERS, *ENGINES),
    *(*SPECULATION, *LORA),
)
