"""Samplers are watched: what they would sample with, the weights that they hold, and what their counters say."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from loopback import Loopback, Says, loopback, until
from runs import group, run_record, write_log
from serving import NEUTRAL, QUICK, max_tokens_histogram, recorded, sglang, vllm, vllm_metrics, watched

from grpo_top.config import Settings
from grpo_top.formats.engine_metrics import engine_metrics
from grpo_top.monitor import Monitor
from grpo_top.records import Run, SamplerLook, Step
from grpo_top.samplers import Samplers
from grpo_top.snapshot import Status
from grpo_top.sources.http import Network

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from grpo_top.snapshot import Finding, SamplerFacts, Snapshot

CUSTOM = {"framework": "my-loop"}
"""A trainer of which nothing is known: it may leave settings out of its requests."""


def one(snapshot: Snapshot) -> SamplerFacts:
    (sampler,) = snapshot.samplers
    return sampler


def drift(snapshot: Snapshot) -> Finding | None:
    return next((found for found in snapshot.findings if found.id == "SAMPLER_DRIFT"), None)


def a_run(directory: Path, **about: Any) -> Path:
    """A log of three healthy steps."""
    rollouts = [
        record
        for step in (1, 2, 3)
        for name in ("a", "b")
        for record in group(step, f"{step} {name}", (0.0, 1.0, 0.0, 1.0))
    ]
    return write_log(directory / "log.jsonl", [run_record(**{**CUSTOM, **about}), *rollouts])


# vLLM


def test_a_vllm_server_tells_what_it_would_sample_with_and_holds(server):
    url = vllm(server, {"temperature": 0.7, "top_k": 20}, version="step_40", metrics=recorded("vllm_010"))
    sampler = one(watched(url))
    assert (sampler.engine, sampler.model, sampler.weight_version) == ("vllm", "m", "step_40")
    assert sampler.sampling == {**NEUTRAL, "temperature": 0.7, "top_k": 20}
    assert sampler.gauges["running"] == 64.0
    assert sampler.gauges["cache_use"] == pytest.approx(0.7)
    assert sampler.asked is not None
    origins = {"the model's generation_config.json or --override-generation-config"}
    assert set(sampler.origins) == {"temperature", "top_k"}
    assert set(sampler.origins.values()) == origins


def test_a_look_generates_nothing_and_takes_nothing_away(server):
    watched(vllm(server), sglang(server, at="/sgl"))
    posts = {asked.route for asked in server.asked if asked.method == "POST"}
    assert posts == {"/v1/chat/completions/render"}
    assert not [path for path in server.paths() if "generate" in path or path.endswith("/completions")]


def test_an_open_server_config_tells_how_each_value_gets_there(server):
    config = {"model": "m", "generation_config": "auto", "override_generation_config": {"temperature": 0.7}}
    url = vllm(server, {"temperature": 0.7, "top_p": 0.8, "max_tokens": 512}, config=config)
    sampler = one(watched(url))
    assert sampler.sampling is not None
    assert sampler.sampling["max_tokens"] == 512
    assert sampler.origins == {
        "temperature": "--override-generation-config",
        "top_p": "the model's generation_config.json",
        "max_tokens": "max_new_tokens of the model's generation_config.json",
    }
    assert sampler.unknown == ()


def test_max_tokens_that_is_only_what_fits_is_no_setting(server):
    sampler = one(watched(vllm(server, {"max_tokens": 4094})))
    assert sampler.sampling == NEUTRAL


def test_what_is_closed_is_said_with_the_flag_that_opens_it(server):
    url = vllm(server, version=None, render=Says({"error": "disabled"}, 403))
    sampler = one(watched(url))
    assert (sampler.sampling, sampler.weight_version) == (None, None)
    assert sampler.unknown == (
        "sampling defaults (closed: start the server with --enable-scale-out)",
        "/server_info (closed: start the server with VLLM_SERVER_DEV_MODE=1)",
        "/weight_info (closed: start the server with VLLM_SERVER_DEV_MODE=1, vLLM 0.27 or later)",
    )


def test_where_rendering_is_closed_an_open_config_tells_what_it_fixes(server):
    config = {"model": "m", "generation_config": "vllm", "override_generation_config": {"top_p": 0.9}}
    closed = Says("", 403)
    sampler = one(watched(vllm(server, config=config, render=closed)))
    assert sampler.sampling == {**NEUTRAL, "top_p": 0.9}
    config = {"model": "m", "generation_config": "auto", "override_generation_config": {"top_p": 0.9}}
    sampler = one(watched(vllm(server, config=config, render=closed)))
    assert sampler.sampling == {"top_p": 0.9}
    assert "--generation-config vllm makes it neutral" in sampler.unknown[0]


def test_a_base_model_without_a_chat_template_is_rendered_as_a_completion(server):
    url = vllm(server, render=Says({"message": "no chat template"}, 400))
    server.routes["/v1/completions/render"] = Says([{"sampling_params": {"temperature": 0.6}}])
    assert one(watched(url)).sampling == {**NEUTRAL, "temperature": 0.6}


def test_a_server_that_wants_a_key_says_so(server):
    refused = Says("", 401)
    url = vllm(server, render=refused, models=refused)
    assert "GRPO_TOP_HEADERS" in one(watched(url)).unknown[0]


# SGLang


def test_an_sglang_server_with_neutral_defaults(server):
    url = sglang(server, defaults="openai", version="7", metrics=recorded("sglang_009"))
    sampler = one(watched(url))
    assert (sampler.engine, sampler.model, sampler.weight_version) == ("sglang", "/models/m", "7")
    assert sampler.sampling == NEUTRAL
    assert sampler.gauges["running"] == 64.0
    assert sampler.unknown == ()


def test_sglang_takes_its_defaults_from_a_model_that_lies_here_too(server, tmp_path):
    (tmp_path / "generation_config.json").write_text(
        json.dumps({"temperature": 0.6, "top_k": 20, "eos_token_id": 1})
    )
    sampler = one(watched(sglang(server, model=str(tmp_path))))
    assert sampler.sampling == {**NEUTRAL, "temperature": 0.6, "top_k": 20}
    assert sampler.origins["temperature"] == (
        "the model's generation_config.json, through --sampling-defaults model"
    )


def test_sglang_without_the_models_file_says_what_is_unknown_and_how_to_be_sure(server):
    sampler = one(watched(sglang(server, preferred='{"temperature": 0.9}')))
    assert sampler.sampling == {"temperature": 0.9}
    assert sampler.origins == {"temperature": "--preferred-sampling-params"}
    first, second, third = sampler.unknown
    assert "--sampling-defaults openai makes it neutral" in first
    assert second == "weight version: the trainer never named one when it sent weights"
    assert third == "/metrics: start the server with --enable-metrics"


# Drift


def test_a_default_that_is_not_the_intended_value_fails_with_how_it_gets_there(server, tmp_path):
    run = a_run(tmp_path, sampling={"temperature": 1.0, "top_p": 1.0})
    found = drift(watched(vllm(server, {"temperature": 0.7}), where=[run]))
    assert found is not None
    assert (found.severity, found.active) == (Status.FAIL, True)
    assert found.summary.startswith(
        "temperature 0.7 is the default, 1.0 intended; from the model's generation_config"
    )
    assert found.try_next[0] == "Pass temperature 1.0 with each request"
    assert (
        "Start the server with --generation-config vllm, which makes its defaults neutral" in found.try_next
    )


def test_all_as_intended_is_no_drift(server, tmp_path):
    run = a_run(tmp_path, sampling={"temperature": 1.0})
    snapshot = watched(vllm(server), vllm(server, at="/b"), where=[run])
    assert drift(snapshot) is None
    assert snapshot.tracks["SAMPLER_DRIFT"].status[-1] == Status.OK


def test_a_larger_default_of_max_tokens_is_no_drift(server, tmp_path):
    run = a_run(tmp_path, sampling={"max_tokens": 256})
    assert drift(watched(vllm(server, {"max_tokens": 512}), where=[run])) is None
    assert drift(watched(vllm(server, {"max_tokens": 128}), where=[run])) is not None


@pytest.mark.parametrize("framework", ["trl", "verl", "art", "skyrl", "prime-rl"])
def test_a_trainer_that_passes_every_setting_makes_it_a_remark(server, tmp_path, framework):
    run = a_run(tmp_path, sampling={"temperature": 1.0}, framework=framework)
    found = drift(watched(vllm(server, {"temperature": 0.7, "top_k": 20}), where=[run]))
    assert found is not None
    assert found.severity == Status.INFO
    assert "top_k" not in found.summary
    assert any(step.startswith("Training rollouts are not touched: ") for step in found.try_next)


def test_rollouts_that_record_how_they_were_sampled_make_it_a_remark(server, tmp_path):
    sampled = {"temperature": 1.0}
    rollouts = [
        record for step in (1, 2, 3) for record in group(step, str(step), (0.0, 1.0), sampling=sampled)
    ]
    run = write_log(tmp_path / "log.jsonl", [run_record(**CUSTOM, sampling=sampled), *rollouts])
    found = drift(watched(vllm(server, {"temperature": 0.7}), where=[run]))
    assert found is not None
    assert found.severity == Status.INFO
    found = drift(watched(vllm(server, {"temperature": 0.7, "top_k": 20}), where=[run]))
    assert found is not None
    assert found.severity == Status.WARN  # the rollouts do not record top_k


def test_a_default_that_nobody_intended_is_a_warning(server, tmp_path):
    run = a_run(tmp_path, sampling={"temperature": 1.0})
    found = drift(watched(vllm(server, {"repetition_penalty": 1.05, "top_k": 20}), where=[run]))
    assert found is not None
    assert found.severity == Status.WARN
    assert found.summary == "top_k 20, repetition_penalty 1.05 are defaults that the run record does not name"


def test_one_of_three_samplers_that_differs_is_named_also_where_nothing_is_intended(server):
    urls = [vllm(server, at="/a"), vllm(server, at="/b"), vllm(server, {"temperature": 0.15}, at="/c")]
    snapshot = watched(*urls)
    assert [sampler.name for sampler in snapshot.samplers] == [url.removeprefix("http://") for url in urls]
    found = drift(snapshot)
    assert found is not None
    assert found.severity == Status.FAIL
    name = urls[2].removeprefix("http://")
    assert found.summary.startswith(
        f"temperature 0.15 is the default on 1 of 3 samplers ({name}), 1.0 on the other samplers"
    )
    assert found.evidence["server_settings"][0]["servers"] == [name]


def test_of_two_samplers_that_differ_the_neutral_one_is_taken_for_right(server):
    found = drift(watched(vllm(server, {"temperature": 0.2}, at="/a"), vllm(server, at="/b")))
    assert found is not None
    assert found.try_next[0] == "Pass temperature 1.0 with each request"


def test_unknown_because_it_is_closed_is_no_verdict(server, tmp_path):
    run = a_run(tmp_path, sampling={"temperature": 1.0})
    snapshot = watched(vllm(server, render=Says("", 403), version=None), where=[run])
    assert drift(snapshot) is None
    assert snapshot.tracks["SAMPLER_DRIFT"].status[-1] == Status.UNKNOWN


def test_requests_that_never_ask_for_the_intended_budget_are_drift():
    monitor = Monitor([], Settings())
    ledger = monitor.ledger
    ledger.add_run(Run(framework="my-loop", sampling={"max_tokens": 256}))
    for step in range(1, 5):
        asked = {"100.0": 0, "200.0": 40 * step, "500.0": 40 * step, "+Inf": 40 * step}
        body = vllm_metrics(stop=40 * step) + max_tokens_histogram(asked)
        ledger.add_step(Step(step, {"reward": 0.5}), "w", "grpo-top")
        ledger.add_look(SamplerLook("a", counters=engine_metrics(body.encode())[""].counters), 0)
    ledger.judge_finished(ended=True)
    found = drift(monitor.snapshot(finished=True))
    assert found is not None
    assert (found.severity, found.onset) == (Status.FAIL, 2)
    assert found.summary == "all 40 requests ask for at most 200 tokens, 256 intended"


def live(server: Loopback, run: Path, *samplers: str) -> Monitor:
    return Monitor([str(run)], Settings(), network=Network(limits=QUICK), samplers=samplers)


def polled(monitor: Monitor, holds: Callable[[], object]) -> None:
    """Poll until something holds."""
    until(lambda: (monitor.poll(), holds())[1])


def test_sampling_that_changes_between_two_looks_is_drift_from_the_step_that_it_was_seen_at(
    server, tmp_path, monkeypatch
):
    monkeypatch.setattr("grpo_top.formats.engines.LOOKS_BETWEEN", 1)
    monkeypatch.setattr("grpo_top.formats.engines.EngineWatcher.every", 0.01)
    log = tmp_path / "log.jsonl"
    url = vllm(server)
    steps = [[run_record(**CUSTOM), *group(1, "1", (0.0, 1.0))]]
    steps += [group(step, str(step), (0.0, 1.0)) for step in range(2, 7)]
    write_log(log, steps[0])
    monitor = live(server, log, url)
    try:
        polled(monitor, monitor.ledger.samplers.facts)
        for number, records in enumerate(steps[1:], 2):
            if number == 4:
                vllm(server, {"temperature": 0.2})
                polled(monitor, lambda: len(one(monitor.snapshot()).changes) == 2)
            with log.open("a") as file:
                file.write("".join(json.dumps(record) + "\n" for record in records))
            polled(monitor, lambda number=number: monitor.ledger.table.length == number)
        snapshot = monitor.snapshot()
    finally:
        monitor.close()
    found = drift(snapshot)
    assert found is not None
    assert (found.severity, found.onset) == (Status.FAIL, 3)
    assert found.summary.startswith("temperature 0.2 is the default, 1.0 at first")
    first, second = one(snapshot).changes
    assert first.sampling == NEUTRAL
    assert (second.step, second.sampling) == (3, {**NEUTRAL, "temperature": 0.2})


# Who is asked


def test_samplers_that_the_config_names_are_asked_where_that_is_wanted(server, tmp_path):
    url = vllm(server)
    run = a_run(tmp_path, config={"vllm_server_base_url": f"{url}/v1"})
    assert one(watched("auto", where=[run])).name == url.removeprefix("http://")
    asked = len(server.asked)
    snapshot = watched(where=[run])
    assert len(server.asked) == asked
    assert snapshot.samplers == ()
    assert any("not asked (--sampler auto asks it)" in line for line in snapshot.left_out)


def test_a_finished_runs_samplers_are_not_looked_for(server, tmp_path):
    run = a_run(tmp_path, config={"vllm_server_base_url": vllm(server)}, total_steps=3)
    watched("auto", where=[run])
    assert server.asked == []


def test_addresses_in_a_config_that_are_none_are_left(tmp_path):
    urls = ["http://[x", "http://host:port", "http://", "nonsense"]
    snapshot = watched("auto", where=[a_run(tmp_path, config={"client": {"base_url": urls}})])
    assert len(snapshot.sources) == 1


def test_rays_list_of_samplers_is_followed(server, tmp_path):
    url = vllm(server, at="")
    listed = tmp_path / "prom_metrics_service_discovery.json"
    listed.write_text(json.dumps([{"labels": {"job": "ray"}, "targets": [url.removeprefix("http://")]}]))
    assert one(watched(str(listed))).engine == "vllm"


def test_a_sampler_that_is_nothing_of_the_sort_is_refused():
    with pytest.raises(ValueError, match="no URL, and no file that lists samplers"):
        Monitor([], Settings(), samplers=["/nowhere"])


def test_a_sampler_that_is_down_is_a_state_and_stops_nobody(server, tmp_path):
    run = a_run(tmp_path, sampling={"temperature": 1.0})
    with loopback() as gone:
        down = gone.url
    snapshot = watched(down, vllm(server, {"temperature": 0.7}), where=[run])
    assert [sampler.name for sampler in snapshot.samplers] == [server.url.removeprefix("http://")]
    assert drift(snapshot) is not None
    source = next(source for source in snapshot.sources if source.where == down)
    assert (source.state, source.role) == ("error", "endpoint")
    assert source.note.startswith("connection refused; next try at ")


def test_a_look_at_a_sampler_is_no_sign_of_life_of_the_run(server, tmp_path):
    monitor = Monitor([], Settings(), network=Network(limits=QUICK), samplers=[vllm(server)])
    try:
        polled(monitor, monitor.ledger.samplers.facts)
        assert monitor.snapshot().last_record_time is None
    finally:
        monitor.close()


# Records of a log


def test_looks_that_a_log_holds_are_read_as_looks_of_ones_own(tmp_path):
    def seen(temperature: float) -> dict[str, Any]:
        return {
            "kind": "sampler",
            "sampler": "gpu1",
            "sampling": {"temperature": temperature},
            "engine": "vllm",
        }

    records = [run_record(**CUSTOM, sampling={"temperature": 1.0}), seen(1.0)]
    for step in range(1, 9):
        records += group(step, str(step), (0.0, 1.0))
        if step == 5:
            records.append(seen(0.3))
    snapshot = watched(where=[write_log(tmp_path / "log.jsonl", records)])
    found = drift(snapshot)
    assert found is not None
    assert (found.severity, found.onset, found.active) == (Status.FAIL, 5, True)
    assert [change.step for change in one(snapshot).changes] == [0, 5]
    statuses = snapshot.tracks["SAMPLER_DRIFT"].status.tolist()
    assert statuses == [Status.OK] * 4 + [Status.FAIL] * 4


def test_an_address_whose_answers_alternate_hides_servers_that_differ():
    samplers = Samplers()
    for temperature in (1.0, 0.2, 1.0, 0.2):
        samplers.take(SamplerLook("router", {"temperature": temperature}), 3)
    (server,) = samplers.at(3).all
    assert (server.sampling, server.other) == ({"temperature": 0.2}, {"temperature": 1.0})


def test_what_a_sampler_held_at_an_earlier_step_can_be_had_again():
    samplers = Samplers()
    for step, temperature, version in ((2, 1.0, "2"), (5, 1.0, "5"), (7, 0.2, "7")):
        samplers.take(SamplerLook("a", {"temperature": temperature, "top_p": 1.0}, version), step)
    at = {step: samplers.at(step).all for step in (1, 6, 7)}
    assert at[1] == ()
    assert (at[6][0].sampling, at[6][0].version, at[6][0].since["temperature"]) == (
        {"temperature": 1.0, "top_p": 1.0},
        5,
        2,
    )
    assert (at[7][0].since, at[7][0].first) == (
        {"temperature": 7, "top_p": 2},
        {"temperature": 1.0, "top_p": 1.0},
    )
