"""Every payload is valid JSON of the length asked for, and no run meets what another has left in the server's cache."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.load.test_dataset import TRACE, one, parsed
from vtop.errors import VtopError
from vtop.load.workload.prompts import NONCE_TOKENS, WORDS, Prompts


def prompts(text: str, entropy: str = "run a", **more: Any) -> Prompts:
    return Prompts(one(text), model="m", entropy=entropy, **more)


def ids(made: Prompts, k: int) -> list[int]:
    prompt = json.loads(made.payload(k))["prompt"]
    assert all(isinstance(token, int) for token in prompt)
    return list(prompt)


def content(made: Prompts, k: int) -> str:
    (message,) = json.loads(made.payload(k))["messages"]
    assert message["role"] == "user"
    return str(message["content"])


def word_tokens(extra: int = 0, double: tuple[str, ...] = ()) -> Callable[[str], int]:
    """A server that counts a token a word, two for some words, and `extra` for its chat template."""
    return lambda text: extra + sum(1 + (word in double) for word in text.split())


def test_a_payload_has_the_asked_fields() -> None:
    body = json.loads(prompts("c=1 in=20 out=7").payload(0))
    del body["prompt"]
    assert body == {
        "model": "m",
        "max_tokens": 7,
        "stream": True,
        "stream_options": {"include_usage": True},
        "return_token_ids": True,
        "temperature": 0,
        "ignore_eos": True,
    }


def test_a_model_may_be_called_anything() -> None:
    name = 'org/"N" \\ model[awq]\n'
    made = Prompts(one("c=1 in=20"), model=name, entropy="run a")
    assert json.loads(made.payload(0))["model"] == name


@pytest.mark.parametrize("tokens", [1, 2, 15, 16, 63, 64, 65, 1024, 4099])
@pytest.mark.parametrize("k", [0, 1, 12345])
def test_prompts_are_as_long_as_asked(tokens: int, k: int) -> None:
    assert len(ids(prompts(f"c=1 in={tokens}"), k)) == tokens


def test_prompts_of_a_range_are_as_long_as_they_say() -> None:
    made = prompts("c=1 in=30~90 out=5~9")
    for k in range(50):
        body = json.loads(made.payload(k))
        assert (len(body["prompt"]), body["max_tokens"]) == made.asked(k)
    assert len({made.asked(k) for k in range(50)}) > 20


def test_ids_come_from_the_vocabulary_alone_and_all_of_it() -> None:
    assert set(ids(prompts("c=1 in=100000"), 0)) == set(range(300, 4000))
    assert set(ids(prompts("c=1 in=500", vocabulary=[5, 70_000, 9]), 0)) == {5, 70_000, 9}


def test_no_two_runs_share_the_first_block() -> None:
    runs = [ids(prompts("c=1 in=1024", entropy=f"run {run}"), 7) for run in range(50)]
    for block in (16, 64):
        assert len({tuple(prompt[:block]) for prompt in runs}) == 50


def test_no_two_requests_of_a_run_share_the_first_block() -> None:
    made = prompts("c=1 in=1024")
    assert len({tuple(ids(made, k)[:16]) for k in range(300)}) == 300


def test_no_two_phases_of_a_run_share_the_first_block() -> None:
    assert ids(prompts("c=1", index=0), 7)[:16] != ids(prompts("c=1", index=1), 7)[:16]


def test_behind_the_nonce_the_seed_repeats_the_prompt() -> None:
    first, second = (ids(prompts("c=1 seed=3", entropy=run), 7) for run in ("run a", "run b"))
    assert first[:NONCE_TOKENS] != second[:NONCE_TOKENS]
    assert first[NONCE_TOKENS:] == second[NONCE_TOKENS:]
    assert ids(prompts("c=1 seed=4"), 7)[NONCE_TOKENS:] != first[NONCE_TOKENS:]


def test_a_payload_depends_on_its_number_alone() -> None:
    backwards, made = prompts("c=1 in=64~128"), prompts("c=1 in=64~128")
    assert [made.payload(k) for k in range(9)] == [backwards.payload(k) for k in reversed(range(9))][::-1]


@pytest.mark.parametrize("prefix", [1, 16, 64, 256])
def test_a_prefix_is_shared_within_the_run_and_with_no_other(prefix: int) -> None:
    made = prompts(f"c=1 in=300 prefix={prefix}")
    run = [ids(made, k) for k in range(20)]
    assert {len(prompt) for prompt in run} == {300}
    assert len({tuple(prompt[:prefix]) for prompt in run}) == 1
    assert len({tuple(prompt[prefix : prefix + 16]) for prompt in run}) == 20
    if prefix >= 16:
        assert ids(prompts(f"c=1 in=300 prefix={prefix}", entropy="run b"), 0)[:16] != run[0][:16]


def test_a_prefix_is_the_same_at_every_step_of_a_sweep() -> None:
    steps = [ids(prompts("c=1 in=300 prefix=64", index=index), 0) for index in range(3)]
    assert len({tuple(step[:64]) for step in steps}) == 1
    assert len({tuple(step[64:80]) for step in steps}) == 3


def test_a_refused_field_is_left_out_and_another_stands_in() -> None:
    def fields(*without: str) -> dict[str, Any]:
        body: dict[str, Any] = json.loads(prompts("c=1 in=20 out=7", without=without).payload(0))
        return body

    body = fields("return_token_ids")
    assert "return_token_ids" not in body
    assert body["stream_options"] == {"include_usage": True, "continuous_usage_stats": True}
    body = fields("return_token_ids", "continuous_usage_stats")
    assert body["stream_options"] == {"include_usage": True}
    assert "stream_options" not in fields("return_token_ids", "stream_options")
    assert "stream_options" not in fields("include_usage")
    body = fields("ignore_eos", "temperature", "cache_salt")
    assert "ignore_eos" not in body
    assert "temperature" not in body
    assert body["min_tokens"] == 7
    assert "min_tokens" not in fields("ignore_eos", "min_tokens")


def test_a_model_may_end_by_itself_where_that_is_asked_for_or_cannot_be_helped() -> None:
    asked = prompts("c=1 in=20 out=7 ignore_eos=no")
    body = json.loads(asked.payload(0))
    assert (body["max_tokens"], asked.exact, asked.caveats) == (7, False, ())
    assert not {"ignore_eos", "min_tokens"} & set(body)
    unable = prompts("c=1 in=20 out=7", without=["ignore_eos", "min_tokens"])
    assert not unable.exact
    assert "answers are at most as long as asked" in unable.caveats[0]


def test_no_request_is_made_without_what_it_needs() -> None:
    with pytest.raises(ValueError, match="max_tokens"):
        prompts("c=1", without=["max_tokens"])


def test_a_chat_is_as_long_as_asked_where_the_server_can_count() -> None:
    count = word_tokens(extra=11, double=("air", "mountain", "square"))
    made = prompts("c=1 in=200 api=chat", count_tokens=count)
    assert made.caveats == ()
    for k in range(20):
        assert count(content(made, k)) == 200
        assert not {"air", "mountain", "square"} & set(content(made, k).split())


def test_a_server_is_asked_to_count_few_times() -> None:
    asked: list[str] = []

    def count(text: str) -> int:
        asked.append(text)
        return word_tokens(11, double=("air", "square"))(text)

    prompts("c=1 in=200 api=chat", count_tokens=count)
    assert len(asked) < 60


def test_a_chat_whose_words_cost_more_is_about_as_long() -> None:
    def count(text: str) -> int:
        return 5 + 2 * len(text.split())

    made = prompts("c=1 in=2000 api=chat", count_tokens=count)
    assert any("not exact" in caveat for caveat in made.caveats)
    assert count(content(made, 0)) == pytest.approx(2000, abs=4)


def test_a_chat_with_a_server_that_cannot_count_says_so() -> None:
    made = prompts("c=1 in=200 api=chat")
    assert any("not exact" in caveat for caveat in made.caveats)
    assert len(content(made, 0).split()) == pytest.approx(200, abs=1)


def test_chats_differ_from_the_first_words() -> None:
    made = prompts("c=1 in=200 api=chat")
    assert len({" ".join(content(made, k).split()[1:17]) for k in range(200)}) == 200
    assert content(made, 0).split()[1:17] != content(prompts("c=1 in=200 api=chat", entropy="run b"), 0).split()[1:17]


def test_chats_can_share_a_prefix() -> None:
    made = prompts("c=1 in=200 prefix=50 api=chat", count_tokens=word_tokens(9))
    chats = [content(made, k).split() for k in range(9)]
    assert len({tuple(words[:51]) for words in chats}) == 1
    assert len({tuple(words[51:60]) for words in chats}) == 9
    assert word_tokens(9)(" ".join(chats[0])) == 200


def test_a_chat_shorter_than_its_template_is_an_error() -> None:
    with pytest.raises(VtopError, match=r"in=8 is less than .*; write in=13 or more"):
        prompts("c=1 in=8 api=chat", count_tokens=word_tokens(11))
    assert content(prompts("c=1 in=13 api=chat", count_tokens=word_tokens(11)), 0).split()[1:]


def test_words_are_plain_and_each_is_there_once() -> None:
    assert len(WORDS) == len(set(WORDS)) > 256
    assert all(word.isascii() and word.isalpha() for word in WORDS)


def test_a_dataset_of_prompts_is_sent_word_for_word() -> None:
    items = parsed('{"prompt": "Say \\"hé\\u2028\\"", "output": 9}\n\n{"prompt": "b"}\n{"prompt": [5, 6, 7]}\n')
    assert [item.text for item in items] == ['Say "hé\u2028"', "b", None]
    made = prompts("c=1 dataset=d", items=items)
    assert json.loads(made.payload(0))["prompt"] == 'Say "hé\u2028"'
    assert json.loads(made.payload(2))["prompt"] == [5, 6, 7]
    assert [made.asked(k) for k in range(4)] == [(None, 9), (None, None), (3, None), (None, 9)]
    assert json.loads(made.payload(3)) == json.loads(made.payload(0))


def test_a_model_ends_by_itself_where_nothing_says_how_long() -> None:
    items = parsed('{"prompt": "a", "output": 9}\n{"prompt": "b"}')
    made = prompts("c=1 dataset=d", items=items)
    told, free = (json.loads(made.payload(k)) for k in range(2))
    assert (told["max_tokens"], told["ignore_eos"]) == (9, True)
    assert free["max_tokens"] == 1024
    assert "ignore_eos" not in free
    asked = json.loads(prompts("c=1 dataset=d out=5", items=items).payload(0))
    assert (asked["max_tokens"], asked["ignore_eos"]) == (5, True)


def test_a_dataset_of_prompts_warns_of_the_cache_and_of_repeats() -> None:
    items = parsed('{"prompt": "a"}\n{"prompt": "b"}')
    cached, repeats = prompts("c=1 n=3 dataset=d", items=items).caveats
    assert "cached" in cached
    assert repeats == "3 requests from a dataset of 2: the prompts repeat"
    assert len(prompts("c=1 n=2 dataset=d", items=items).caveats) == 1


@pytest.mark.parametrize(
    "line",
    ['{"prompt_tokens": 40, "output": 9}', '{"input": 40, "output_tokens": 9}', '{"input_length": 40, "output": 9}'],
)
def test_a_dataset_of_lengths_makes_prompts_of_them(line: str) -> None:
    made = prompts("c=1 n=1 dataset=d", items=parsed(line))
    assert made.asked(0) == (40, 9)
    assert len(ids(made, 0)) == 40
    assert made.caveats == ()
    assert ids(made, 0)[:16] != ids(made, 1)[:16]


def test_a_dataset_goes_to_chat_too() -> None:
    items = parsed('{"prompt": "Hello \\"you\\""}\n{"input": 30}')
    made = prompts("c=1 n=2 dataset=d api=chat", items=items, count_tokens=word_tokens(5))
    assert content(made, 0) == 'Hello "you"'
    assert word_tokens(5)(content(made, 1)) == 30


def test_token_ids_do_not_go_to_chat() -> None:
    with pytest.raises(VtopError, match="write api=completions"):
        prompts("c=1 dataset=d api=chat", items=parsed('{"prompt": [1, 2]}'))


def test_a_trace_shares_the_blocks_that_its_hashes_share() -> None:
    made = prompts("trace=t", items=parsed(TRACE, "trace=t"))
    first, alone, begun, last = (ids(made, k) for k in range(4))
    assert [len(prompt) for prompt in (first, alone, begun, last)] == [1300, 700, 1400, 1100]
    assert first[:1024] == last[:1024]
    assert first[1024:1040] != last[1024:1040]
    assert begun[:512] == first[:512]
    assert begun[512:528] != first[512:528]
    assert alone[:16] != first[:16]
    assert made.caveats == ()


def test_a_trace_meets_no_other_run_or_phase() -> None:
    items = parsed(TRACE, "trace=t")
    runs = [prompts("trace=t", entropy=run, index=index, items=items) for run in ("a", "b") for index in (0, 1)]
    assert len({tuple(ids(made, 0)[:16]) for made in runs}) == 4


def test_a_trace_with_small_blocks_says_so_by_block() -> None:
    line = '{"timestamp": 0, "input_length": 40, "output_length": 5, "hash_ids": [7, 8, 7]}'
    with pytest.raises(VtopError, match="line 1: 3 hash_ids of 512 tokens"):
        parsed(line, "trace=t")
    (item,) = parsed(line, "trace=t block=16")
    prompt = ids(prompts("trace=t block=16", items=(item,)), 0)
    assert prompt[:8] == prompt[32:]
    assert len(prompt) == 40


def test_a_trace_can_be_a_dataset_without_its_times() -> None:
    made = prompts("c=4 dataset=t", items=parsed(TRACE))
    assert [made.asked(k)[0] for k in range(4)] == [1100, 1300, 700, 1400]
    assert ids(made, 0)[:1024] == ids(made, 1)[:1024]


def test_blocks_that_chat_does_not_share_are_said() -> None:
    line = '{"input": 40, "output": 5, "hash_ids": [7]}'
    made = prompts("c=1 n=1 dataset=d api=chat", items=parsed(line), count_tokens=word_tokens(5))
    assert made.caveats == (
        "the dataset's hash_ids are left out, no two prompts share blocks; api=completions shares them",
    )
    assert prompts("c=1 n=1 dataset=d", items=parsed(line)).caveats == ()


def test_a_trace_in_seconds_that_is_read_as_milliseconds_is_said() -> None:
    def caveats(field: str, step: float) -> tuple[str, ...]:
        lines = (f'{{"{field}": {k * step}, "input_length": 5, "output_length": 5}}' for k in range(3601))
        return prompts("trace=t", items=parsed("\n".join(lines), "trace=t")).caveats

    assert caveats("timestamp", 1) == (
        "the trace's 3,601 requests are due within 3.6 s (timestamp is read as milliseconds, seconds are timestamp_s)",
    )
    for field, step in (("timestamp_s", 1), ("timestamp", 1000), ("timestamp", 0)):
        assert caveats(field, step) == ()
