"""Options of the command line that are about endpoints: which samplers are asked, and how."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from grpo_top.formats.fleet_queries import Fleets
    from grpo_top.sources.http import Network


def add_endpoints(parser: argparse.ArgumentParser) -> None:
    """Add them to a verb that reads a run."""
    from pathlib import Path  # noqa: PLC0415  `--version` need not wait for it

    group = parser.add_argument_group("endpoints")
    group.add_argument(
        "--sampler",
        metavar="URL",
        action="append",
        default=[],
        help="a vLLM or SGLang server (or a list of them: FILE as Ray writes it, `ray` for its own); may be repeated. "
        "`auto` asks those that the run's config names, as the monitor does unless told `none`",
    )
    group.add_argument(
        "--prometheus",
        metavar="URL",
        action="append",
        default=[],
        help="a Prometheus server that scrapes the samplers: the distribution over all of them; may be repeated",
    )
    group.add_argument(
        "--query",
        metavar="NAME=PROMQL",
        action="append",
        default=[],
        help="one more number of each sampler to ask it for; may be repeated",
    )
    group.add_argument(
        "--header",
        metavar="'K: V'",
        action="append",
        default=[],
        help="sent to every URL named here; others on this machine see it, so put secrets in GRPO_TOP_HEADERS, "
        "in @FILE, or in .netrc; 'URL K: V' sends it there alone",
    )
    group.add_argument(
        "--ca-file", metavar="FILE", type=Path, help="certificates to trust besides the usual (PEM)"
    )
    group.add_argument(
        "--insecure",
        metavar="HOST",
        action="append",
        default=[],
        help="do not look at the certificate of HOST (or HOST:PORT); may be repeated",
    )


def samplers_of(options: argparse.Namespace, *, live: bool) -> tuple[str, ...]:
    """The samplers to ask. `live`: a run that is followed, whose config's own samplers are asked unless told."""
    named = tuple(getattr(options, "sampler", None) or ())
    return named or (("auto",) if live else ())


def fleets_of(options: argparse.Namespace) -> Fleets:
    """The Prometheus servers to ask, and what; ValueError where an option cannot be used."""
    from grpo_top.formats.fleet_queries import Fleets, own_query  # noqa: PLC0415
    from grpo_top.sources.urls import origin, shown  # noqa: PLC0415

    urls = tuple(getattr(options, "prometheus", ()))
    for url in urls:
        try:
            origin(url)
        except ValueError as error:
            raise ValueError(f"--prometheus {shown(url)}: {error}") from error
    return Fleets(urls, tuple(map(own_query, getattr(options, "query", ()))))


def network_of(options: argparse.Namespace) -> Callable[[], Network]:
    """What asks endpoints, made when the first is known of; ValueError where an option cannot be used."""
    from grpo_top.sources.secrets import secrets_of  # noqa: PLC0415

    secrets = secrets_of(getattr(options, "header", ()))
    ca_file = getattr(options, "ca_file", None)
    if ca_file is not None and not ca_file.is_file():
        raise ValueError(f"--ca-file {ca_file}: no such file")
    insecure = getattr(options, "insecure", ())

    def connect() -> Network:
        import atexit  # noqa: PLC0415

        from grpo_top.sources.http import Network  # noqa: PLC0415  a run of files alone needs none

        network = Network(secrets, ca_file=ca_file, insecure=insecure)
        atexit.register(network.close)
        return network

    return connect
