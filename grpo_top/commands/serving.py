"""`serve`: a run for a grpo-top on another machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo_top.commands.opening import INTERRUPTED, OK, Wrong, settings_of, where_of

if TYPE_CHECKING:
    import argparse


def serve(options: argparse.Namespace) -> int:
    """Serve until interrupted."""
    from grpo_top.config import as_table
    from grpo_top.endpoint_options import fleets_of, network_of, samplers_of
    from grpo_top.monitor import NothingReadable
    from grpo_top.serve import CannotServe, serve
    from grpo_top.spool import LIMIT
    from grpo_top.spooled_run import SpooledRun

    where, settings = where_of(options), settings_of(options)

    def make(*, live: bool) -> SpooledRun:
        return SpooledRun(
            where,
            format_name=options.format,
            wanted=options.run or settings.run.get("name"),
            one_run=options.one_run,
            fields=settings.fields,
            network=network_of(options),
            samplers=samplers_of(options, live=live),
            fleets=fleets_of(options),
            limit=options.spool or LIMIT,
        )

    def say(url: str) -> None:
        print(f"{' '.join(where)} is served at {url}", flush=True)

    try:
        interrupted = serve(
            make,
            say,
            host=options.host,
            port=options.port,
            token_file=options.token_file,
            settings=as_table(settings),
        )
    except (CannotServe, NothingReadable, ValueError) as error:
        raise Wrong(str(error)) from error
    return INTERRUPTED if interrupted else OK
