"""What endpoints say: metrics' text, engines' counters, and where configs name samplers."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from serving import recorded

from grpo_top.formats.engine_metrics import engine_metrics
from grpo_top.formats.kinds import KINDS, engine_of
from grpo_top.formats.prometheus import is_exposition, own_name, samples
from grpo_top.formats.sampler_urls import sampler_urls
from grpo_top.formats.served import rows_of
from grpo_top.sources.client import Answer
from grpo_top.sources.urls import name_of, server_of, shown
from grpo_top.watchlist import targets_of


def answer(body: bytes) -> Answer:
    return Answer("http://h/x", 200, {}, body, 0.0)


@pytest.mark.parametrize("name", ["vllm_000", "vllm_010", "sglang_000", "sglang_009"])
def test_recorded_metrics_are_known_for_what_they_are(name):
    body = recorded(name)
    assert is_exposition(body)
    assert is_exposition(body[:65536])
    assert engine_of(answer(body)) == name.partition("_")[0]


def test_vllms_counters_are_brought_under_one_set_of_names():
    metrics = engine_metrics(recorded("vllm_010"))[""]
    assert (metrics.engine, metrics.model) == ("vllm", "mock-arith-1b")
    wanted = {
        "finish{stop}": 97,
        "finish{length}": 4,
        "requests": 101,
        "generation_tokens": 39658,
        "prompt_tokens": 12420,
        "completion_tokens_sum": 11491,
        "completion_tokens_count": 101,
        "completion_tokens{100}": 31,
        "completion_tokens{inf}": 0,
    }
    assert {name: metrics.counters[name] for name in wanted} == wanted
    assert metrics.gauges["sleep{awake}"] == 1.0
    assert not any("created" in name for name in metrics.counters)


def test_sglangs_are_brought_under_the_same():
    metrics = engine_metrics(recorded("sglang_009"))[""]
    assert {name: metrics.counters[name] for name in ("requests", "finish{abort}", "generation_tokens")} == {
        "requests": 426,
        "finish{abort}": 557,
        "generation_tokens": 433,
    }
    assert metrics.gauges["waiting"] == 30.0


def test_engines_of_one_server_are_added_up_and_ranks_of_one_engine_are_not():
    lines = [
        'vllm:num_requests_running{engine="0",model_name="m"} 3.0',
        'vllm:num_requests_running{engine="1",model_name="m"} 4.0',
        'vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.2',
        'vllm:kv_cache_usage_perc{engine="1",model_name="m"} 0.9',
    ]
    assert engine_metrics("\n".join(lines).encode())[""].gauges == {"running": 7.0, "cache_use": 0.9}
    ranks = [f'sglang:generation_tokens_total{{tp_rank="{rank}"}} 50.0' for rank in (0, 1)]
    assert engine_metrics("\n".join(ranks).encode())[""].counters == {"generation_tokens": 50.0}


def test_a_line_that_cannot_be_read_spoils_no_other():
    body = b'vllm:num_requests_running{engine="0" 3.0\nvllm:num_requests_waiting{engine="0"} 2.0\n'
    assert engine_metrics(body)[""].gauges == {"waiting": 2.0}
    found, bad = samples(body, lambda _: True)
    assert ([sample.name for sample in found], bad) == (
        ["vllm_num_requests_waiting"],
        ["a line that is no sample"],
    )


def test_exemplars_and_the_end_mark_of_openmetrics_are_read_past():
    body = b'# TYPE a counter\na_total{x="1"} 5.0 # {trace="abc"} 1.0 1700000000.0\n# EOF\n'
    assert is_exposition(body)
    assert [(sample.name, sample.value) for sample in samples(body, lambda _: True)[0]] == [("a_total", 5.0)]


def test_numbers_that_are_not_finite_count_for_nothing_in_an_engines_counters():
    assert (
        engine_metrics(b"vllm:generation_tokens_total NaN\nvllm:num_requests_running +Inf\n")[""].counters
        == {}
    )


@pytest.mark.parametrize(
    "body",
    [b"", b"hello", b"<html></html>", b'{"a": 1}', b"# a comment\n", b"2026-11-30 10:00 step 1", b"\x00"],
)
def test_other_texts_are_no_metrics(body):
    assert not is_exposition(body)


@settings(max_examples=150)
@given(st.one_of(st.binary(max_size=300), st.text(max_size=300).map(lambda text: f"vllm:{text}\n".encode())))
def test_no_answer_can_crash_what_looks_at_it(body):
    engine_metrics(body)
    for kind in KINDS:
        assert 0 <= kind.claim(answer(body)) <= 100


@pytest.mark.parametrize(
    ("exported", "own"),
    [
        ("trainer_loss", "loss"),
        ("trainer_mismatch_kl", "mismatch_kl"),
        ("miles_metric_train_kl_loss", "train/kl_loss"),
        ("actor_entropy", "actor/entropy"),
        ("something_else", "something_else"),
    ],
)
def test_an_exported_name_is_led_back_to_the_trainers_key(exported, own):
    assert own_name(exported) == own


@pytest.mark.parametrize("value", [None, 3, "x", [], [1, 2], {}, [[{}]], {"metrics": 3}])
def test_json_that_is_no_row_gives_rows_without_numbers_or_none(value):
    assert all(isinstance(row, dict) for row in rows_of(value))


# Where configs name samplers


@pytest.mark.parametrize(
    ("config", "urls"),
    [
        ({"use_vllm": True, "vllm_mode": "server", "vllm_server_base_url": "http://a:8000"}, ["http://a:8000"]),
        ({"vllm_mode": "server", "vllm_server_host": "0.0.0.0", "vllm_server_port": 8000}, ["http://127.0.0.1:8000"]),
        ({"vllm_mode": "colocate", "vllm_server_host": "0.0.0.0", "vllm_server_port": 8000}, []),
        ({"use_vllm": False, "vllm_server_host": "h", "vllm_server_port": 8000}, []),
        ({"vllm_server_base_url": "None", "vllm_server_host": "None", "vllm_server_port": "[8000]"}, []),
        ({"vllm_server_host": ["a", "b"], "vllm_server_port": [1, 2]}, ["http://a:1", "http://b:2"]),
        ({"orchestrator": {"client": {"base_url": ["http://a:1/v1", "http://b:2/v1"]}}}, ["http://a:1/v1", "http://b:2/v1"]),
        ({"generator.remote_inference_engine_urls": "a:1,b:2"}, ["http://a:1", "http://b:2"]),
        ({"sglang_router_ip": "10.0.0.1", "sglang_router_port": 3000}, ["http://10.0.0.1:3000"]),
        ({"judge": {"base_url": "https://api.example.com/v1"}}, []),
        ({"client": {"base_url": "file:///etc/passwd"}}, []),
        ({"client": {"base_url": None}}, []),
        ({}, []),
    ],
)  # fmt: skip
def test_the_samplers_of_a_config_are_found_under_each_frameworks_words(config, urls):
    assert list(sampler_urls(config)) == urls


@settings(max_examples=100)
@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=20) | st.booleans(),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["client", "base_url", "vllm_server_host", "vllm_server_port", "x"]), inner
            )
        ),
        max_leaves=8,
    )
)
def test_no_config_can_crash_the_search(config):
    for url in sampler_urls({"client": config, "vllm_server_host": config, "vllm_server_port": config}):
        assert url.startswith("http")


def test_rays_list_gives_urls_and_odd_entries_nothing():
    listed = [
        {"labels": {}, "targets": ["10.0.0.1:8080", "http://b:1/metrics", 3, "", "/etc"]},
        {"targets": "x"},
        4,
    ]
    assert list(targets_of(listed)) == ["http://10.0.0.1:8080", "http://b:1/metrics"]
    assert list(targets_of({"a": 1})) == []


@pytest.mark.parametrize("end", ["", "/", "/v1", "/v1/", "/metrics", "?x=1"])
def test_a_server_is_one_server_however_it_is_pointed_at(end):
    url = f"http://me:secret@gpu1:8000{end}"
    assert (name_of(url), shown(server_of(url))) == ("gpu1:8000", "http://gpu1:8000")


def test_what_one_endpoint_says_is_bounded():
    lines = [f'vllm:request_success_total{{finished_reason="r{n}"}} 1.0' for n in range(2000)]
    lines.append(f'vllm:request_success_total{{finished_reason="{"x" * 500}"}} 1.0')
    lines += [f'vllm:num_requests_running{{worker_addr="w{n}"}} 1.0' for n in range(2000)]
    found = engine_metrics("\n".join(lines).encode())
    assert len(found) == 1024
    assert len(found[""].counters) <= 257  # with the sum of them
