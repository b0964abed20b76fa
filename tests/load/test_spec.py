"""What a person asks of the load becomes phases; what cannot be is told in one line, with what to write instead."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vtop.errors import VtopError
from vtop.load.workload.phase import PlannedPhase, TokenRange, thin
from vtop.load.workload.spec import WORDS, SloBounds, phases, slo, sweep
from vtop.samples import samples_needed


def one(text: str) -> PlannedPhase:
    (phase,) = phases([text])
    return phase


def test_a_closed_loop_needs_only_its_concurrency() -> None:
    phase = one("c=64")
    assert phase == PlannedPhase(concurrency=64, requests=320)
    assert (phase.shape, phase.input, phase.output) == ("closed", TokenRange(1024, 1024), TokenRange(256, 256))


def test_a_closed_loop_sends_enough_for_its_p95_at_least() -> None:
    assert one("c=1").requests == 128
    assert samples_needed(0.95) <= 128


def test_an_open_loop_is_poisson_for_a_minute() -> None:
    phase = one("rate=8")
    assert (phase.shape, phase.rate_per_s, phase.arrival, phase.for_s) == ("open", 8.0, "poisson", 60.0)
    assert phase.max_in_flight is None


def test_a_slow_open_loop_takes_longer() -> None:
    assert one("rate=1").for_s == 128
    assert one("rate=0.001").for_s == 3600


@pytest.mark.parametrize("text", ["c=8,in=512,out=64", "c=8 in=512 out=64", " c=8 , in=512,\tout=64 "])
def test_words_stand_between_commas_or_blanks(text: str) -> None:
    assert one(text) == PlannedPhase(concurrency=8, input=TokenRange(512, 512), output=TokenRange(64, 64), requests=128)


@pytest.mark.parametrize(
    ("text", "concurrencies"),
    [
        ("c=1..64", [1, 2, 4, 8, 16, 32, 64]),
        ("c=1..48", [1, 2, 4, 8, 16, 32, 48]),
        ("c=3..20", [3, 6, 12, 20]),
        ("c=7..7", [7]),
        ("c=1,2,4 in=512", [1, 2, 4]),
        ("c=1,2,4,in=512", [1, 2, 4]),
        ("c=1 2 4", [1, 2, 4]),
        ("c=1..4,6..12", [1, 2, 4, 6, 12]),
    ],
)
def test_a_list_is_a_phase_each(text: str, concurrencies: list[int]) -> None:
    assert [phase.concurrency for phase in phases([text])] == concurrencies


def test_rates_come_in_lists_too() -> None:
    assert [phase.rate_per_s for phase in phases(["rate=0.5,2 arrival=constant"])] == [0.5, 2.0]
    assert [phase.rate_per_s for phase in phases(["rate=1..8/s"])] == [1.0, 2.0, 4.0, 8.0]


def test_several_loads_are_phases_one_after_another() -> None:
    assert [phase.name for phase in phases(["c=1,2", "rate=8", "trace=chat.jsonl"])] == [
        "c=1",
        "c=2",
        "rate=8",
        "trace=chat.jsonl",
    ]


def test_every_word_is_read() -> None:
    text = "rate=2.5 arrival=gamma:0.25 max=128 in=512~2048 out=64~256 prefix=256"
    text += " n=50 for=2m30s warmup=8 seed=7 api=chat ignore_eos=no workers=2"
    assert one(text) == PlannedPhase(
        rate_per_s=2.5,
        arrival="gamma:0.25",
        max_in_flight=128,
        input=TokenRange(512, 2048),
        output=TokenRange(64, 256),
        prefix_tokens=256,
        requests=50,
        for_s=150.0,
        warmup=8,
        seed=7,
        api="chat",
        ignore_eos=False,
        workers=2,
    )


def test_a_trace_brings_lengths_times_and_its_end() -> None:
    phase = one("trace=/data/chat.jsonl speed=2x block=16 max=64")
    assert phase == PlannedPhase(
        arrival="trace", trace="/data/chat.jsonl", speed=2.0, hash_tokens=16, max_in_flight=64, input=None, output=None
    )
    assert phase.limit_s == 86400


def test_a_dataset_says_its_lengths_unless_out_does() -> None:
    assert one("c=8 dataset=a.jsonl").output is None
    assert one("c=8 dataset=a.jsonl out=64").output == TokenRange(64, 64)


def test_a_file_with_a_comma_stands_in_quotes() -> None:
    assert one('c=8 dataset="/x/my prompts, all.jsonl" n=9').dataset == "/x/my prompts, all.jsonl"
    assert one("c=8 'dataset=a b.jsonl' n=9").dataset == "a b.jsonl"


def test_the_record_names_no_folder() -> None:
    phase = one('c=8 dataset="/home/ann/my prompts.jsonl"')
    assert phase.spec == 'c=8 dataset="my prompts.jsonl" n=128'
    assert one(phase.spec).dataset == "my prompts.jsonl"


def test_at_the_screen_a_load_without_an_end_has_none() -> None:
    (closed,), (rated,) = phases(["c=8"], endless=True), phases(["rate=2"], endless=True)
    for one in (closed, rated):
        assert (one.requests, one.for_s) == (None, None)
        assert one.limit_s > 86400
    assert phases(["c=8 n=9"], endless=True) == phases(["c=8 n=9"])
    assert phases(["c=1,2"], endless=True) == phases(["c=1,2"]), "the first would never end"


def test_every_phase_has_a_bound_on_time() -> None:
    assert one("c=8").limit_s == 3600
    assert one("c=8 for=2h").limit_s == 7200
    assert one("c=8 for=60s warmup=8").limit_s == 660  # a warm-up that never ends is one, too
    assert one("rate=0.1 n=1000").limit_s > 1000 / 0.1


lengths = st.tuples(st.integers(300, 9000), st.integers(300, 9000)).map(lambda ends: TokenRange(min(ends), max(ends)))
rates = st.floats(1e-3, 1e5, allow_nan=False)


@given(
    shape=st.one_of(
        st.builds(PlannedPhase, concurrency=st.integers(1, 65536)),
        st.builds(
            PlannedPhase,
            rate_per_s=rates,
            arrival=st.sampled_from(["poisson", "constant", "gamma:0.5", "gamma:3"]),
            max_in_flight=st.none() | st.integers(1, 999),
        ),
    ),
    rest=st.fixed_dictionaries(
        {
            "input": lengths,
            "output": lengths,
            "prefix_tokens": st.integers(0, 299),
            "requests": st.none() | st.integers(1, 10**6),
            "for_s": st.floats(1e-3, 1e6),
            "warmup": st.integers(0, 99),
            "seed": st.integers(0, 2**63 - 1),
            "api": st.sampled_from(["completions", "chat"]),
            "workers": st.integers(1, 16),
        }
    ),
)
def test_a_phase_read_from_its_spec_is_the_same(shape: PlannedPhase, rest: dict[str, object]) -> None:
    phase = replace(shape, **rest)  # type: ignore[arg-type]
    assert one(phase.spec) == phase


@pytest.mark.parametrize(
    ("text", "what", "instead"),
    [
        ("", "how much load is not said", "c=64"),
        ("in=1024", "how much load is not said", "rate=8"),
        ("c=64,ratee=8", "no word is called 'ratee'", "write rate=8"),
        ("concurrency=64", "no word is called 'concurrency'", "write c=64"),
        ("qps=3", "no word is called 'qps'", "write rate=8"),
        ("c=8 isl=3", "no word is called 'isl'", "write in=1024"),
        ("c=8 warmpu=3", "no word is called 'warmpu'", "write warmup=8"),
        ("c=8 xyzzy=3", "no word is called 'xyzzy'", "some of c, rate"),
        ("c:64", "'c:64' has no =", "write c=64"),
        ("c64", "'c64' has no =", "write c=64"),
        ("c", "'c' has no =", "write c=64"),
        ("64", "'64' stands alone", "c=64 or rate=64"),
        ("hello", "'hello' has no =", "words such as c=64"),
        ("rate=8 poisson", "'poisson' stands alone", "write arrival=poisson"),
        ("rate=8 gamma:2", "'gamma:2' stands alone", "write arrival=gamma:2"),
        ("c=8 in=512,1024", "'1024' stands alone", "in=512~2048"),
        ("c=8 dataset=a,b.jsonl", "'b.jsonl' stands alone", "in quotes"),
        ("c=8 dataset=bob's.jsonl", "a quote is not closed", 'dataset="'),
        ("c=8 c=16", "c is given twice", "phases are several --load"),
        ("c=", "c= has no value", "write c=64"),
        ("c=sixty", "c=sixty is no whole number", "write c=64"),
        ("c=6.5", "c=6.5 is no whole number", "write c=64"),
        ("c=0", "c=0 is not within 1 to 65,536", "write c=64"),
        ("c=-1", "c=-1 is no whole number", "write c=64"),
        ("c=64..1", "c=64..1 runs backwards", "write c=1..64"),
        ("c=1..", "c= is no whole number", "write c=64"),
        ("c=1,,2 4x", "'4x' has no =", "words such as"),
        ("rate=0", "rate=0 is no number above 0", "write rate=8"),
        ("rate=nan", "rate=nan is no number above 0", "write rate=8"),
        ("rate=inf", "rate=inf is no number above 0", "write rate=8"),
        ("rate=fast", "rate=fast is no number above 0", "write rate=8"),
        ("rate=8 arrival=poison", "arrival=poison is not known", "write arrival=poisson"),
        ("rate=8 arrival=uniform", "arrival=uniform is not known", "write arrival=constant"),
        ("rate=8 arrival=bursty", "arrival=bursty is not known", "poisson, constant or gamma:0.5"),
        ("rate=8 arrival=gamma", "gamma needs its shape", "arrival=gamma:0.5"),
        ("rate=8 arrival=gamma:0", "the shape is no number above 0", "arrival=gamma:0.5"),
        ("rate=8 arrival=gamma:x", "the shape is no number above 0", "arrival=gamma:0.5"),
        ("c=8 rate=8", "c and rate exclude each other", "one of them"),
        ("c=8 trace=a.jsonl", "c and trace exclude each other", "dataset=FILE with c"),
        ("rate=8 trace=a.jsonl", "rate and trace exclude each other", "speed=2"),
        ("c=8 arrival=poisson", "arrival belongs to rate", "rate=8 with it"),
        ("c=8 max=4", "max belongs to rate or trace", "rate=8 with it"),
        ("c=8 speed=2", "speed belongs to trace", "trace=trace.jsonl with it"),
        ("c=8 block=16", "block belongs to trace or dataset", "trace=trace.jsonl with it"),
        ("trace=a.jsonl speed=0", "speed=0 is no number above 0", "write speed=2"),
        ("trace=a.jsonl dataset=b.jsonl", "dataset and trace exclude each other", "one of them"),
        ("trace=a.jsonl out=9", "out says what the trace says already", "leave out= or trace="),
        ("c=8 dataset=a.jsonl in=9", "in says what the dataset says already", "leave in= or dataset="),
        ("trace=a.jsonl api=chat", "token ids, which chat does not take", "write api=completions"),
        ("c=8 in=512-1024", "in=512-1024 is no range", "write in=512~1024"),
        ("c=8 in=512..1024", "in=512..1024 is no range", "write in=512~1024"),
        ("c=8 in=9~3", "in=9~3 runs backwards", "write in=3~9"),
        ("c=8 in=1k", "in=1k is no whole number", "write in=1024"),
        ("c=8 out=0", "out=0 is not within", "write out=256"),
        ("c=8 in=512 prefix=512", "prefix=512 leaves no token of its own in a prompt of 512", "write in=1024"),
        ("c=8 n=0", "n=0 is not within", "write n=128"),
        ("c=8 for=soon", "for=soon is no time", "for=60s"),
        ("c=8 for=0s", "for=0s is no time", "for=60s"),
        ("c=8 for=inf", "for=inf is no time", "for=60s"),
        ("c=8 for=nan", "for=nan is no time", "for=60s"),
        ("c=8 api=chats", "api=chats is not known", "write api=chat"),
        ("c=8 api=/v1/completions", "api=/v1/completions is not known", "write api=completions"),
        ("c=8 api=x", "api=x is not known", "write api=completions or api=chat"),
        ("c=8 workers=0", "workers=0 is not within 1 to 256", "write workers=2"),
        ("c=8 seed=x", "seed=x is no whole number", "write seed=1"),
    ],
)
def test_a_wrong_word_is_told_in_one_line(text: str, what: str, instead: str) -> None:
    with pytest.raises(VtopError) as raised:
        phases([text])
    line = str(raised.value)
    assert line.startswith(("--load '", '--load "'))
    assert what in line
    assert instead in line
    assert "\n" not in line


def test_the_error_names_the_spec_that_is_wrong() -> None:
    with pytest.raises(VtopError, match=r"--load 'c=x': "):
        phases(["c=8", "c=x"])


def test_every_example_is_a_word_that_works() -> None:
    home = {
        "max": "rate=8",
        "arrival": "rate=8",
        "speed": "trace=t",
        "block": "trace=t",
        "trace": "",
        "rate": "",
        "c": "",
    }
    for word, (example, _) in WORDS.items():
        assert example.startswith(f"{word}=")
        assert phases([f"{home.get(word, 'c=8')} {example}"])


@given(st.text(st.sampled_from("cnratein=.,~ 0123456789:-\"'xs"), max_size=24))
def test_no_text_breaks_the_reading(text: str) -> None:
    try:
        for phase in phases([text]):
            assert one(phase.spec) == phase
    except VtopError as error:
        assert "; write " in str(error)  # noqa: PT017


def test_a_sweep_is_one_phase_each_with_a_warm_up() -> None:
    swept = sweep()
    assert [phase.concurrency for phase in swept] == [1, 2, 4, 8, 16, 32, 64]
    assert [phase.warmup for phase in swept] == [1, 2, 4, 8, 16, 32, 64]
    assert {phase.input for phase in swept} == {TokenRange(1024, 1024)}


def test_a_sweep_takes_any_word() -> None:
    assert sweep("2,4", words="in=512 out=8 n=459 warmup=3") == phases(["c=2,4 in=512 out=8 n=459 warmup=3"])
    assert [phase.warmup for phase in sweep(rate="1..4", words="for=600s")] == [8, 8, 8]


def test_a_sweep_names_itself_in_an_error() -> None:
    with pytest.raises(VtopError, match=r"sweep 'c=1,x in=1024 out=256': 'x' has no ="):
        sweep("1,x")


def test_a_phase_too_short_for_its_p99_says_so() -> None:
    assert thin(one("c=1")) == "c=1: 128 requests carry percentiles up to p95; p99 needs 459 (n=459)"
    assert thin(one("c=1 n=3")) == "c=1: 3 requests carry no percentile; p99 needs 459 (n=459)"
    assert thin(one("rate=2 for=30s")) == "rate=2: 60 requests carry percentiles up to p90; p99 needs 459 (n=459)"
    assert thin(one("c=1 for=9s")) == "c=1: how many requests it will measure is not known before; p99 needs 459"


@pytest.mark.parametrize("text", ["c=1 n=459", "rate=8", "rate=1 n=459"])
def test_a_phase_long_enough_says_nothing(text: str) -> None:
    assert thin(one(text)) is None


def test_bounds_are_seconds_inside() -> None:
    assert slo("ttft=800ms,tpot=50ms,e2e=10s") == SloBounds(0.8, 0.05, 10.0)
    assert slo("e2e=1.5s").record() == {"e2e": 1.5}


@pytest.mark.parametrize(
    ("text", "what", "instead"),
    [
        ("", "no bound is given", "ttft=800ms"),
        ("ttft=800", "ttft=800 has no unit", "write ttft=800ms or ttft=800s"),
        ("ttft=800us", "ttft=800us is no time", "ttft=800ms"),
        ("ttft=fast", "ttft=fast is no time", "ttft=800ms"),
        ("ttft=0ms", "ttft=0ms is met by no request", "ttft=800ms"),
        ("ttft<800ms", "'ttft<800ms' has no =", "ttft=800ms"),
        ("itl=50ms", "no bound is called 'itl'", "write tpot"),
        ("tfft=50ms", "no bound is called 'tfft'", "write ttft"),
        ("latency=5s", "no bound is called 'latency'", "write e2e"),
        ("e2e=1s,e2e=2s", "e2e is given twice", "one e2e="),
    ],
)
def test_a_wrong_bound_is_told_in_one_line(text: str, what: str, instead: str) -> None:
    with pytest.raises(VtopError) as raised:
        slo(text)
    assert str(raised.value).startswith("--slo ")
    assert what in str(raised.value)
    assert instead in str(raised.value)
