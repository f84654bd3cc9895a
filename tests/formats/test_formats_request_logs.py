import json
from pathlib import PurePath

import pytest
from format_reading import fed, of, packed, read, sample
from hypothesis import given
from hypothesis import strategies as st

from grpo_top.formats.registry import choose
from grpo_top.formats.request_logs import VllmReader
from grpo_top.formats.sglang_requests import LogReader, MetricsReader
from grpo_top.records import Rollout, SamplerLook, Skipped

FILE = "sglang-request-metrics-20261129_10.log"
PARAMETERS = {
    "rid": "a",
    "input_ids": [1, 72, 3],
    "sampling_params": {"temperature": 0.7, "top_k": -1, "max_new_tokens": 32, "stop": None},
}
REQUEST = {
    "request_parameters": json.dumps(PARAMETERS),
    "id": "a",
    "finish_reason": {"type": "length", "length": 32},
    "prompt_tokens": 3,
    "weight_version": "44",
    "output_token_logprobs": [[-0.5, 100, None], [-0.25, 64, None]],
    "completion_tokens": 2,
}
LINE = (
    "(APIServer pid=4242) INFO 11-30 12:00:39 [request_logger.py:66] Received request cmpl-0f-0: params: "
    "SamplingParams(n=1, presence_penalty=0.0, temperature=0.6, watermarking=None, top_p=0.95, top_k=-1, seed=83, "
    "stop=[], max_tokens=32, min_tokens=0, extra_args=None), lora_request: None."
)
WARNING = (
    "(APIServer pid=1) WARNING 11-30 12:00:01 [model.py:1907] Default vLLM sampling parameters have been overridden "
    "by the model's `generation_config.json`: `{'temperature': 0.6, 'top_k': 20}`."
)


def requests(*records: dict[str, object]) -> list[object]:
    return read(f"engine0/{FILE}", b"".join(json.dumps(record).encode() + b"\n" for record in records))


# SGLang


def test_what_was_asked_is_a_json_object_in_a_string():
    (found,) = requests(REQUEST)
    assert found.sampling == {"temperature": 0.7, "top_k": 0, "max_tokens": 32}
    assert (found.prompt, found.prompt_tokens) == ("token ids 1 72 3", 3)


def test_a_request_belongs_to_the_step_after_its_weights():
    (found,) = requests(REQUEST)
    assert (found.step, found.policy_version, found.policy_version_end) == (45, 44, 44)


def test_a_request_is_neither_training_nor_evaluation_and_has_no_reward():
    (found,) = requests(REQUEST)
    assert (found.split, found.reward, found.group) == ("request", None, None)


def test_how_a_request_ended_is_told():
    (found,) = requests(REQUEST)
    assert (found.finish_reason, found.completion_tokens) == ("length", 2)


def test_log_probabilities_are_the_samplers():
    (found,) = requests(REQUEST)
    assert (found.logprobs_sampler, found.logprobs_trainer) == ([-0.5, -0.25], None)
    (found,) = requests({name: value for name, value in REQUEST.items() if "logprobs" not in name})
    assert found.logprobs_sampler is None


def test_several_weights_in_one_answer_are_a_span():
    spans = [{"version": "44", "start": 0, "end": 9}, {"version": "46", "start": 9, "end": 12}]
    (found,) = requests(REQUEST | {"weight_versions": spans})
    assert (found.step, found.policy_version, found.policy_version_end) == (47, 44, 46)


@pytest.mark.parametrize(("version", "number"), [("step_40", 40), ("lora-v7", 7), (12, 12)])
def test_weights_may_be_named_with_a_number(version, number):
    assert requests(REQUEST | {"weight_version": version})[0].policy_version == number


@pytest.mark.parametrize("version", ["default", None, ""])
def test_a_request_whose_weights_have_no_number_shows_its_sampler_alone(version):
    (found,) = requests(REQUEST | {"weight_version": version})
    assert isinstance(found, SamplerLook)
    assert (found.sampler, found.sampling["temperature"]) == ("engine0", 0.7)


def test_files_of_two_hours_are_one_log():
    first, second = (
        packed("sglang-sampler_cold", f"sglang-request-metrics-20261129_{hour}.log") for hour in (10, 11)
    )
    found = read(FILE, first) + read(FILE, second)
    assert len(found) == 160
    temperatures = {
        step: {rollout.sampling["temperature"] for rollout in found if rollout.step == step}
        for step in range(45, 55)
    }
    assert temperatures == {step: {1.0 if step < 51 else 0.15} for step in range(45, 55)}


def test_requests_of_a_step_are_shuffled_so_equal_prompts_are_its_groups():
    found = read(FILE, packed("sglang-sampler_cold", FILE))
    prompts = [rollout.prompt for rollout in found if rollout.step == 45]
    assert len(prompts) == 16
    assert len(set(prompts)) == 2
    assert prompts != sorted(prompts)


@pytest.mark.parametrize("parameters", [None, 3, "{", "[]"])
def test_a_request_without_readable_parameters_is_skipped(parameters):
    found = fed(
        MetricsReader("x"),
        b"\n".join(
            json.dumps(record).encode()
            for record in (REQUEST, REQUEST | {"request_parameters": parameters}, REQUEST)
        ),
    )
    assert [type(record) for record in found] == [Rollout, Skipped, Rollout]


# SGLang's log: written by hand after its source, level 2


META = {
    "id": "a",
    "finish_reason": {"type": "stop", "matched": 151645},
    "prompt_tokens": 3,
    "weight_version": "44",
    "completion_tokens": 2,
    "e2e_latency": 0.3,
}
OBJECT = {"rid": "a", "text": "2+2?", "input_ids": None, "sampling_params": PARAMETERS["sampling_params"]}
RECEIVED_JSON = "[2026-11-30 12:00:39] " + json.dumps(
    {"timestamp": "2026-11-30T12:00:39", "event": "request.received", "rid": "a", "obj": OBJECT}
)
FINISHED_JSON = "[2026-11-30 12:00:39] " + json.dumps(
    {
        "timestamp": "2026-11-30T12:00:39.5",
        "event": "request.finished",
        "rid": "a",
        "obj": OBJECT,
        "out": {"text": "It's {4}", "meta_info": META},
    }
)
RECEIVED_TEXT = (
    "[2026-11-30 12:00:39] Receive: obj=GenerateReqInput(rid='a', text='2+2?', input_ids=None, "
    "sampling_params={'temperature': 0.7, 'top_k': -1, 'max_new_tokens': 32, 'stop': None})"
)
FINISHED_TEXT = (
    "[2026-11-30 12:00:39] Finish: obj=GenerateReqInput(rid='a', text='2+2?', input_ids=None, "
    "sampling_params={'temperature': 0.7, 'top_k': -1, 'max_new_tokens': 32, 'stop': None}, stream=False), "
    "out={'text': \"It's {4}\", 'meta_info': {'id': 'a', 'finish_reason': {'type': 'stop', 'matched': 151645}, "
    "'prompt_tokens': 3, 'weight_version': '44', 'completion_tokens': 2, 'e2e_latency': 0.3}}"
)


def logged(*lines: str) -> list[object]:
    return read("engine0/host_0.log", "".join(line + "\n" for line in lines).encode())


@pytest.mark.parametrize("lines", [(RECEIVED_JSON, FINISHED_JSON), (RECEIVED_TEXT, FINISHED_TEXT)])
def test_of_a_logged_request_the_line_at_its_end_is_read(lines):
    (found,) = logged("INFO: server args: log_requests=True", *lines, "Decode batch. #running-req: 3")
    assert found.sampling == {"temperature": 0.7, "top_k": 0, "max_tokens": 32}
    assert (found.split, found.step, found.policy_version) == ("request", 45, 44)
    assert (found.finish_reason, found.prompt_tokens, found.completion_tokens) == ("stop", 3, 2)


def test_the_json_log_has_the_texts_where_its_level_says_so():
    (found,) = logged(FINISHED_JSON)
    assert (found.prompt, found.completion) == ("2+2?", "It's {4}")


def test_at_level_0_a_logged_request_has_no_sampling():
    bare = json.dumps({"event": "request.finished", "obj": {"rid": "a"}, "out": {"meta_info": META}})
    (found,) = logged(bare)
    assert (found.sampling, found.finish_reason, found.policy_version) == (None, "stop", 44)


def test_a_logged_request_that_is_cut_is_skipped_alone():
    found = logged(FINISHED_TEXT[:-200], FINISHED_JSON[:-20], FINISHED_TEXT)
    assert [type(record) for record in found] == [Skipped, Skipped, Rollout]


# vLLM


def test_a_received_request_is_a_look_at_the_sampler():
    (found,) = read("logs/vllm.log", LINE.encode())
    assert found == SamplerLook(
        "vllm", {"presence_penalty": 0.0, "temperature": 0.6, "top_p": 0.95, "top_k": 0, "max_tokens": 32}
    )


def test_the_servers_defaults_are_not_what_it_samples_with():
    data = sample("requests/vllm_sampler_cold.log.gz")
    assert b"Default vLLM sampling parameters have been overridden" in data
    found = read("vllm.log", data)
    assert fed(VllmReader("vllm"), WARNING.encode()) == []
    assert {look.sampling["top_k"] for look in found} == {0}


def test_a_request_log_shows_when_the_temperature_changed():
    found = read("vllm.log", sample("requests/vllm_sampler_cold.log.gz"))
    temperatures = [look.sampling["temperature"] for look in found]
    assert temperatures == [1.0] * 104 + [0.15] * 96


def test_older_versions_log_the_prompt_before_the_settings():
    line = LINE.replace("params: ", "prompt: 'params: SamplingParams(temperature=9.0, ', params: ")
    (found,) = fed(VllmReader("vllm"), line.encode())
    assert found.sampling["temperature"] == 0.6


def test_a_versioned_adapter_tells_the_policy_version():
    line = LINE.replace(
        "lora_request: None", "lora_request: LoRARequest(lora_name='policy-v12', lora_int_id=3)"
    )
    (found,) = fed(VllmReader("vllm"), line.encode())
    assert isinstance(found, Rollout)
    assert (found.step, found.policy_version, found.sampler) == (13, 12, "vllm")


def test_a_log_that_only_begins_is_known_by_its_announcement():
    line = b"INFO 11-30 12:00:00 [request_logger.py:31] `--enable-log-requests` is set but the minimum log level\n"
    chosen = choose(PurePath("vllm.log"), line)
    assert chosen is not None
    assert chosen[0].name == "requests"


# Whatever is cut, the same records

LINES = [
    json.dumps(REQUEST).encode(),
    json.dumps(REQUEST)[:80].encode(),
    b'{"request_parameters": "{}"}',
    LINE.encode(),
    LINE[:150].encode(),
    WARNING.encode(),
    b"\r",
    b"",
]


@given(st.lists(st.sampled_from(LINES), max_size=12), st.sets(st.integers(1, 11)))
def test_any_cut_of_the_lines_gives_the_same_records(parts, cuts):
    data = b"".join(part + b"\n" for part in parts)
    for reader in (MetricsReader("x"), LogReader("x"), VllmReader("x")):
        assert fed(reader.fresh(), data, cuts) == fed(reader.fresh(), data)


@given(st.binary(max_size=300))
def test_no_bytes_are_too_wrong_to_read_on(data):
    assert of(SamplerLook, fed(VllmReader("x"), data + b"\n" + LINE.encode()))


def test_the_time_of_a_line_has_no_year_and_is_not_taken():
    (found,) = read("vllm.log", LINE.encode())
    assert found.time is None
