"""Where a run's config says that its samplers listen, in the words of each framework.

Only keys that mean the policy's own samplers are looked at: a config also names judges and other models' servers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from grpo_top.formats.decode import literal

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_URLS = (
    "vllm_server_base_url",  # TRL, ms-swift
    "client.base_url",  # prime-rl's orchestrator; a list of them
    "client.admin_base_url",  # prime-rl: the engines behind its router
    "remote_inference_engine_urls",  # SkyRL
    "remote_urls",  # SkyRL since its generator's config was renamed
    "rollout_external_engine_addrs",  # slime, miles
    "inference_base_url",  # ART
)
_PAIRS = (
    ("vllm_server_host", "vllm_server_port"),  # TRL, ms-swift; lists in the latter
    ("sglang_router_ip", "sglang_router_port"),  # slime, miles
)
_NOT_SERVED = {"vllm_mode": "colocate", "use_vllm": False}
"""What says that the addresses beside it are defaults that nothing listens at."""
_EVERYWHERE = frozenset({"0.0.0.0", "::", ""})  # noqa: S104  an address to listen at, not one to ask
MOST = 1024


def sampler_urls(config: Mapping[str, Any]) -> tuple[str, ...]:
    """The URLs of the samplers that a run's config names, each once; empty where it names none."""
    flat = dict(_flat(config))
    if any(
        _last(key) in _NOT_SERVED and _value(value) == _NOT_SERVED[_last(key)] for key, value in flat.items()
    ):
        return ()
    found: dict[str, None] = {}
    for key, value in flat.items():
        if any(key == name or key.endswith(f".{name}") for name in _URLS):
            found |= dict.fromkeys(filter(None, map(_url, _items(value))))
        for host_key, port_key in _PAIRS:
            if key == host_key or key.endswith(f".{host_key}"):
                ports = _items(flat.get(key.removesuffix(host_key) + port_key))
                hosts = _items(value)
                found |= dict.fromkeys(
                    filter(None, (_of_host(host, port) for host, port in _paired(hosts, ports)))
                )
    return tuple(found)[:MOST]


def _flat(config: Mapping[str, Any], prefix: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Every value under its dotted name."""
    for key, value in config.items():
        name = f"{prefix}{str(key).replace('/', '.')}"
        if isinstance(value, dict) and depth < 8:
            yield from _flat(value, f"{name}.", depth + 1)
        else:
            yield name, value


def _last(key: str) -> str:
    return key.rpartition(".")[2]


def _value(value: Any) -> Any:
    """A tracker keeps values as their spelling."""
    return literal(value) if isinstance(value, str) else value


def _items(value: Any) -> list[Any]:
    value = _value(value)
    if isinstance(value, str) and "," in value:
        value = [part.strip() for part in value.split(",")]
    return value if isinstance(value, list) else [] if value is None else [value]


def _url(value: Any) -> str | None:
    if not isinstance(value, str) or not value or value == "None":
        return None
    if "://" not in value:
        host, _, port = value.rpartition(":")
        return _of_host(host, port)
    scheme, _, rest = value.partition("://")
    if scheme not in {"http", "https"}:
        return None
    host = rest.partition("/")[0].rpartition(":")[0]
    return value.replace("0.0.0.0", "127.0.0.1", 1) if host in _EVERYWHERE else value  # noqa: S104


def _of_host(host: Any, port: Any) -> str | None:
    if not isinstance(host, str) or not str(port).isdecimal() or host == "None":
        return None
    return f"http://{'127.0.0.1' if host in _EVERYWHERE else host}:{port}"


def _paired(hosts: list[Any], ports: list[Any]) -> list[tuple[Any, Any]]:
    """Host by host with its port; one host with several ports, or the other way, is paired with each."""
    if len(hosts) == 1:
        return [(hosts[0], port) for port in ports]
    if len(ports) == 1:
        return [(host, ports[0]) for host in hosts]
    return list(zip(hosts, ports, strict=False))
