"""What answers mean: every stream recorded from a real vLLM, and what no vLLM would say."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.load.faults import DONE, chat, token, usage
from vtop.load.http.exchange import Exchange
from vtop.load.http.response import ExpectedAnswer, Reading
from vtop.load.http.server_errors import LIMIT, clean, message_of, refused_field
from vtop.load.http.sse import EventStream, StreamEvent
from vtop.recording.events import Request, decode, encode
from vtop.recording.vocabulary import ErrorClass

STREAMS = Path(__file__).parent.parent / "streams"


def read(answer: bytes, asked: ExpectedAnswer, cut: int | None = None) -> Request:
    """A raw HTTP answer, each of its events (or `cut` bytes) read a second after the one before."""
    head, _, body = answer.partition(b"\r\n\r\n")
    kind = re.search(rb"content-type: (.*)", head)
    exchange = Exchange(b"", asked)
    exchange.begin(0.0, int(head.split()[1]), kind[1] if kind else b"")
    pieces = re.split(rb"(?<=\n\n)", body) if cut is None else [body[n : n + cut] for n in range(0, len(body), cut)]
    second = 0.0
    for piece in filter(None, pieces):
        second += 1.0
        exchange.take(piece, second)
    exchange.finish(second, second)
    return exchange.record(id=1, phase=0)


def recorded(name: str) -> list[bytes]:
    """The HTTP answers of a file, without the framing in chunks."""
    return [dechunked(answer) for answer in re.split(rb"(?=HTTP/1\.1 \d)", (STREAMS / f"{name}.txt").read_bytes())[1:]]


def dechunked(answer: bytes) -> bytes:
    head, _, rest = answer.partition(b"\r\n\r\n")
    rest = re.split(rb"\n### ", rest)[0]
    if b"chunked" not in head or not re.match(rb"[0-9a-f]+\r\n", rest):
        return head + b"\r\n\r\n" + rest
    body = b""
    while True:
        size, _, rest = rest.partition(b"\r\n")
        if not int(size, 16):
            return head + b"\r\n\r\n" + body
        body, rest = body + rest[: int(size, 16)], rest[int(size, 16) + 2 :]


def usual(tokens: int, tokens_from: str, first_s: float = 1.0, **more: Any) -> dict[str, Any]:
    """A success of as many events as tokens, a second apart."""
    return {
        "status": 200,
        "error": None,
        "detail": None,
        "first_s": first_s,
        "last_s": first_s + tokens - 1,
        "output_tokens": tokens,
        "tokens_from": tokens_from,
        "chunks": tokens,
        "gaps_us": (1_000_000,) * (tokens - 1),
        "gap_tokens": None,
        "first_tokens": None,
        "finish": "length",
        "answer_s": None,
        **more,
    }


def whole(tokens: int, **more: Any) -> dict[str, Any]:
    """A success that came as one JSON object."""
    first = tokens if tokens > 1 else None
    return usual(tokens, "usage", last_s=1.0, chunks=1, gaps_us=(), first_tokens=first) | more


def refusal(status: int, detail: str) -> dict[str, Any]:
    nothing = dict.fromkeys(("first_s", "last_s", "output_tokens", "tokens_from", "chunks", "gaps_us", "finish"))
    return {"status": status, "error": "http_status", "detail": detail, **nothing}


FOUR = ExpectedAnswer(4, exact=True)
TWO = ExpectedAnswer(2, exact=True)
REAL: dict[str, tuple[ExpectedAnswer, list[dict[str, Any]]]] = {
    "01_completions_stream": (ExpectedAnswer(4), [usual(4, "chunks", prompt_tokens=None)]),
    "02_completions_stream_usage": (FOUR, [usual(4, "usage", prompt_tokens=5, cached_tokens=None, timings=None)]),
    "03_completions_stream_continuous_usage": (FOUR, [usual(4, "usage", prompt_tokens=5)]),
    "04_completions_tokenids_return": (FOUR, [usual(4, "ids", prompt_tokens=4)]),
    "05_chat_stream_usage": (FOUR, [usual(4, "usage", 2.0, prompt_tokens=5)]),
    "06_chat_stream_continuous_usage": (FOUR, [usual(4, "usage", 2.0, prompt_tokens=5)]),
    "07_completions_nonstream": (FOUR, [whole(4, prompt_tokens=5)]),
    "08_chat_nonstream": (FOUR, [whole(4, prompt_tokens=5)]),
    "09_err_toolong_stream": (
        ExpectedAnswer(4000),
        [
            refusal(
                400,
                "max_tokens=4000 cannot be greater than max_model_len=1024. Please request fewer output tokens. "
                "(parameter=max_tokens, value=4000)",
            )
        ],
    ),
    "10_err_model404": (ExpectedAnswer(4), [refusal(404, "The model `nope` does not exist. Valid aliases: tiny.")]),
    "11_err_badjson": (
        ExpectedAnswer(4),
        [
            refusal(
                400,
                "1 validation error: {'type': 'json_invalid', 'loc': 'body.31', 'msg': 'JSON decode error', 'input': …",
            )
        ],
    ),
    "12_batch_prompts_stream": (ExpectedAnswer(2, exact=True, choices=2), [usual(4, "usage", prompt_tokens=6)]),
    "13_n2_stream": (ExpectedAnswer(2, exact=True, choices=2), [usual(4, "usage", prompt_tokens=3)]),
    "14_echo_maxtok0": (ExpectedAnswer(1, echo=True), [whole(1, prompt_tokens=3)]),
    "15_logprobs_stream": (ExpectedAnswer(2), [usual(2, "chunks")]),
    "20_per_request_metrics_stream": (
        FOUR,
        [
            usual(
                4,
                "usage",
                last_s=3.0,
                chunks=3,
                gaps_us=(1_000_000,) * 2,
                gap_tokens=(1, 2),
                prompt_tokens=34,
                cached_tokens=0,
                timings={
                    "time_to_first_token_ms": 116.98598199996013,
                    "generation_time_ms": 19.76155500005916,
                    "queue_time_ms": 0.03653399994618667,
                    "mean_itl_ms": 6.58718500001972,
                    "tokens_per_second": 29.250983876948627,
                },
            )
        ],
    ),
    "21_per_request_metrics_stream_cachedprompt": (
        FOUR,
        [usual(4, "usage", last_s=2.0, chunks=2, gaps_us=(1_000_000,), gap_tokens=(3,), cached_tokens=32)],
    ),
    "22_per_request_metrics_nonstream_chat": (FOUR, [whole(4, cached_tokens=0)]),
    "23_badkey": (ExpectedAnswer(4), [refusal(401, "Unauthorized")]),
    "24_n7_503": (
        ExpectedAnswer(4),
        [
            refusal(
                503,
                "The engine is currently busy and cannot accept new requests. Please try again later or on a different "
                "instance.",
            )
        ],
    ),
    "25_keepalive_while_queued": (TWO, [usual(2, "usage", 3.0, prompt_tokens=4)]),  # the last token has no text
    "30_engine_killed_midstream": (
        ExpectedAnswer(1000, exact=True),
        [
            usual(
                290,
                "usage",
                error="inband_error",
                detail="EngineCore encountered an issue. See stack trace (above) for the root cause.",
                finish=None,
            )
        ],
    ),
    "40_spec_decode_stream": (
        ExpectedAnswer(24, exact=True),
        [usual(24, "usage", chunks=9, last_s=9.0, gaps_us=(1_000_000,) * 8)],
    ),
    "41_orca_header": (TWO, [whole(2), whole(2), usual(2, "chunks")]),
}


def test_every_recorded_stream_is_looked_at() -> None:
    assert {path.stem for path in STREAMS.glob("*.txt")} == set(REAL)


@pytest.mark.parametrize("name", REAL)
def test_a_recorded_stream_is_read_right(name: str) -> None:
    asked, expected = REAL[name]
    answers = recorded(name)
    assert len(answers) == len(expected)
    for answer, values in zip(answers, expected, strict=True):
        request = read(answer, asked)
        assert {key: getattr(request, key) for key in values} == values
        assert decode(encode(request)) == request


@pytest.mark.parametrize("name", REAL)
@pytest.mark.parametrize("cut", [1, 7, 100])
def test_a_recorded_stream_is_read_the_same_however_it_is_cut(name: str, cut: int) -> None:
    for answer in recorded(name):
        by_event, by_cut = read(answer, REAL[name][0]), read(answer, REAL[name][0], cut)
        for key in ("error", "detail", "output_tokens", "tokens_from", "chunks", "finish", "timings", "cached_tokens"):
            assert getattr(by_event, key) == getattr(by_cut, key)


def test_timings_are_kept_word_for_word() -> None:
    answer = recorded("40_spec_decode_stream")[0]
    said = re.search(rb'"metrics":(\{.*\})\}\n', answer)
    assert said is not None
    assert read(answer, ExpectedAnswer()).timings == json.loads(said[1])


# --- what is not in the recorded streams


def reading(*events: bytes, asked: ExpectedAnswer | None = None) -> Reading:
    """Each event a second after the one before, from 1.0 on."""
    result = Reading(asked or ExpectedAnswer())
    stream = EventStream()
    for second, data in enumerate(events, 1):
        for event in stream.feed(data):
            result.event(event, float(second))
    result.settle()
    return result


def verdict(
    *events: bytes, asked: ExpectedAnswer | None = None, broke: ErrorClass | None = None
) -> tuple[ErrorClass | None, str]:
    return reading(*events, asked=asked).verdict(200, broke, "")


def test_too_few_tokens_are_a_failure_only_where_so_many_were_a_must() -> None:
    answer = (token(finish="stop"), usage(1), DONE)
    assert verdict(*answer, asked=ExpectedAnswer(2, exact=True)) == ("short_output", "1 tokens, 2 were asked for")
    assert verdict(*answer, asked=ExpectedAnswer(2)) == (None, "")


def test_too_many_tokens_are_a_failure() -> None:
    assert verdict(token(finish="length"), usage(3), DONE, asked=ExpectedAnswer(2)) == (
        "long_output",
        "3 tokens, 2 were asked for",
    )


def test_events_are_not_counted_against_what_was_asked_for() -> None:
    assert verdict(token(finish="length"), DONE, asked=ExpectedAnswer(2, exact=True)) == (None, "")


@pytest.mark.parametrize("broke", ["cancelled_at_end", "reset", "stalled", "timeout", "truncated"])
def test_nothing_spoils_an_answer_that_was_complete(broke: ErrorClass) -> None:
    assert verdict(token(finish="stop"), usage(1), DONE, broke=broke) == (None, "")
    assert verdict(token(), broke=broke)[0] == broke


def test_each_choice_must_finish() -> None:
    assert verdict(token(finish="stop"), usage(1), DONE, asked=ExpectedAnswer(choices=2))[0] == "truncated"


def test_an_echo_in_an_event_of_its_own_is_no_token() -> None:
    events = (
        chat(role="assistant", content=""),
        chat(content="the prompt"),
        chat(content="a"),
        chat("stop", content="b"),
    )
    result = reading(*events, usage(2), DONE, asked=ExpectedAnswer(echo=True))
    assert (result.first_s, result.chunks) == (3.0, 2)


def test_running_usage_that_stays_zero_is_no_count() -> None:
    result = reading(token(total=0), token(total=0), token(finish="stop", total=3), usage(3), DONE)
    assert (result.first_s, result.chunks, result.output_tokens, result.read_tokens) == (1.0, 3, 3, (1, 1, 1))


def test_an_event_that_only_repeats_the_running_usage_is_no_token() -> None:
    result = reading(token(total=2), token("", total=2), token(finish="stop", total=3), DONE)
    assert (result.chunks, result.read_tokens, result.gaps_us) == (2, (2, 1), (2_000_000,))


def test_an_empty_chat_event_before_any_text_is_no_first_token() -> None:
    assert reading(chat(content=""), chat(content="a"), chat("stop"), usage(1), DONE).first_s == 2.0


def test_a_gateway_that_says_the_role_each_time() -> None:
    role = {"role": "assistant"}
    assert reading(chat(**role, content="a"), chat("stop", **role, content="b"), usage(2), DONE).chunks == 2


def test_the_only_event_may_be_an_empty_one() -> None:
    result = reading(token("", finish="stop"), usage(1), DONE)
    assert (result.first_s, result.last_s, result.verdict(200, None, "")) == (1.0, 1.0, (None, ""))


def test_gaps_add_up_to_the_whole() -> None:
    result = Reading(ExpectedAnswer())
    for n in range(1000):
        result.event(StreamEvent(token()[6:-2]), n * 0.0333333337)
    result.settle()
    assert sum(result.gaps_us) == round(999 * 0.0333333337 * 1e6)


def test_types_of_another_taste_are_read_all_the_same() -> None:
    parts = (
        b'{"choices":[{"delta":{"content":[{"text":"a"}],"role":null},"index":"0"}],"usage":{"completion_tokens":1.0}}'
    )
    result = reading(b"data: " + parts + b"\n\n", chat("stop"), DONE)
    assert (result.first_s, result.output_tokens, result.finish) == (1.0, 1, "stop")


COUNTS = ("completion_tokens", "prompt_tokens", "prompt_tokens_details", "cached_tokens", "token_ids", "index")
WORDS = (
    "choices",
    "usage",
    "error",
    "delta",
    "text",
    "content",
    "finish_reason",
    "role",
    "metrics",
    "object",
    "detail",
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just(10**400),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(COUNTS + WORDS), inner, max_size=5),
    max_leaves=12,
)


@given(st.lists(VALUES), st.sampled_from([ExpectedAnswer(), ExpectedAnswer(4, exact=True, choices=2, echo=True)]))
def test_no_json_raises(values: list[Any], asked: ExpectedAnswer) -> None:
    events = [json.dumps(value, default=str).encode() for value in values]
    result = Reading(asked)
    for second, event in enumerate(events):
        result.event(StreamEvent(event), float(second))
        result.whole(event, float(second))
        message_of(event)
        refused_field(event)
    result.settle()
    result.verdict(200, None, "")
    assert result.output_tokens is None or result.chunks == 0 or result.output_tokens > 0


@given(st.binary(max_size=200))
def test_no_bytes_raise(data: bytes) -> None:
    Reading(ExpectedAnswer()).event(StreamEvent(data), 1.0)
    assert len(clean(message_of(data), data, ("secret",))) <= LIMIT
    refused_field(data)


# --- refusals


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ('{"detail":[{"type":"extra_forbidden","loc":["body","return_token_ids"],"msg":"Extra inputs are not '
         'permitted"}]}', "return_token_ids"),
        ('{"object":"error","message":"[{\'type\': \'extra_forbidden\', \'loc\': (\'body\', \'ignore_eos\'), \'msg\': '
         '\'Extra inputs are not permitted\', \'input\': True}]","code":400}', "ignore_eos"),
        ('{"object":"error","message":"[{\'type\': \'extra_forbidden\', \'loc\': (\'body\', \'stream_options\', '
         '\'continuous_usage_stats\'), \'msg\': \'Extra inputs are not permitted\'}]"}', "continuous_usage_stats"),
        ('{"detail":[{"loc":["body","min_tokens"],"msg":"extra fields not permitted","type":"value_error.extra"}]}',
         "min_tokens"),
        ('{"error":{"message":"Unrecognized request argument supplied: ignore_eos","type":"invalid_request_error"}}',
         "ignore_eos"),
        ('{"error":{"message":"Unknown parameter: \'return_token_ids\'.","param":"return_token_ids"}}',
         "return_token_ids"),
        ("Failed to deserialize: unknown field `ignore_eos`, expected one of `stream_options`, `seed`", "ignore_eos"),
        ('{"error":"json: unknown field \\"ignore_eos\\""}', "ignore_eos"),
        ('{"error":{"message":"property \'ignore_eos\' is unsupported"}}', "ignore_eos"),
        ('{"error":{"message":"stream_options is not supported by this model"}}', "stream_options"),
        ('{"error":{"message":"max_tokens=4000 cannot be greater than max_model_len=1024"}}', None),
        ('{"error":{"message":"unknown model tiny"}}', None),
        ('{"error":{"message":"min_tokens must be less than or equal to max_tokens"}}', None),
        ("", None),
    ],
)  # fmt: skip
def test_the_field_that_a_server_refuses(body: str, field: str | None) -> None:
    assert refused_field(body.encode()) == field


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ('{"error":{"message":"a","type":"b"}}', "a"),
        ('{"error":"Unauthorized"}', "Unauthorized"),
        ('{"detail":"Not Found"}', "Not Found"),
        ('{"detail":[{"loc":["body","n"],"msg":"bad","input":7},{"msg":"worse"}]}', "body.n: bad; worse"),
        ('{"message":"m"}', "m"),
        ('data: {"error":{"message":"in a stream"}}\n\ndata: [DONE]\n\n', "in a stream"),
        ("<html><head><title>504 Gateway\nTime-out</title></head></html>", "504 Gateway\nTime-out"),
        ("upstream connect error", "upstream connect error"),
        ("{}", "{}"),
        ("", ""),
    ],
)
def test_the_message_of_an_error(body: str, message: str) -> None:
    assert message_of(body.encode()) == message


PROMPT = "Please tell me about the life of Ada Lovelace,\nin two sentences."


@pytest.mark.parametrize(
    "payload",
    [
        {"prompt": PROMPT},
        {"prompt": [PROMPT, "another"]},
        {"messages": [{"role": "user", "content": PROMPT}]},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": PROMPT}]}]},
    ],
)
def test_no_prompt_gets_into_a_message(payload: dict[str, Any]) -> None:
    raw = json.dumps({"model": "tiny", **payload}).encode()
    for said in (f"cannot do: {PROMPT}", f"cannot do: {PROMPT[3:40]}", f"cannot do: {PROMPT!r}"):
        words = clean(said, raw)
        assert words.startswith("cannot do: ")
        assert not any(part in words for part in ("tell me", "Lovelace", "sentences"))


def test_no_token_ids_get_into_a_message() -> None:
    assert clean("bad prompt [101, 102, 103, 104, 105]") == "bad prompt […]"


def test_a_message_is_one_short_line_without_secrets() -> None:
    assert clean("key  sk-123\n\x1b[31m is\twrong", secrets=("sk-123",)) == "key *** [31m is wrong"
    assert len(clean("x" * 10_000)) == LIMIT


@pytest.mark.parametrize("number", [10**30, -(10**30), 2**63, -1, 10**4000], ids=range(5))
@pytest.mark.parametrize("field", ["completion_tokens", "prompt_tokens", "index"])
def test_a_number_that_is_none_hangs_and_breaks_nothing(field: str, number: int) -> None:
    said = {"choices": [{"index": 0, "text": " x", "finish_reason": "length"}], "usage": {"prompt_tokens": 8}}
    if field == "index":
        said["choices"] = [{"index": number, "text": " x", "finish_reason": "length"}]
    else:
        said["usage"] = {field: number}
    event = b"data: " + json.dumps(said).encode() + b"\n\n"
    request = read(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n" + event * 3 + DONE, ExpectedAnswer())
    assert request.end_s is not None
    assert decode(encode(request)) == request
    assert (request.prompt_tokens, request.output_tokens) in ((None, 3), (8, 3))


@pytest.mark.parametrize(
    "metrics", [{"a": 10**30}, {"a": "x" * 100_000}, {"deep": [[[[[[[[[[1]]]]]]]]]]}], ids=["number", "word", "deep"]
)
def test_timings_that_cannot_be_recorded_are_left_out(metrics: dict[str, Any]) -> None:
    said = {"choices": [{"index": 0, "text": " x", "finish_reason": "f" * 5000}], "metrics": metrics}
    event = b"data: " + json.dumps(said).encode() + b"\n\n"
    request = read(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n" + event + DONE, ExpectedAnswer())
    assert request.timings is None
    assert request.finish == "f" * 100
