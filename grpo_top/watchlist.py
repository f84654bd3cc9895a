"""Which endpoints are asked: those that the user names, and samplers that the run's config or Ray's own list names."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from grpo_top.formats.fleet_queries import NO_FLEETS
from grpo_top.formats.sampler_urls import sampler_urls
from grpo_top.sources.urls import is_url, name_of, origin, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from grpo_top.endpoints import Endpoint
    from grpo_top.formats.base import RunContext
    from grpo_top.formats.fleet_queries import Fleets
    from grpo_top.sources.http import Network

AUTO, NONE = "auto", "none"
"""In place of a sampler's URL: those that the run's config names; not even those."""
RAY = Path("/tmp/ray/prom_metrics_service_discovery.json")  # noqa: S108  where Ray writes it
LARGEST_LIST = 4 << 20


class Watchlist:
    """Begins to ask an endpoint once it is known of. For the monitor's thread."""

    def __init__(
        self,
        network: Network | Callable[[], Network] | None,
        urls: Sequence[str],
        samplers: Sequence[str],
        context: RunContext,
        only: str | None = None,
        fleets: Fleets = NO_FLEETS,
    ) -> None:
        """`network`: what asks, or makes what asks when it is needed. None: one without any secret.

        `samplers`: URLs, `auto`, `none`, or the paths of lists as Ray writes them. `only`: the format of all logs.

        ValueError where one is none of these.
        """
        self._network = network
        self._asks: Network | None = None
        self.endpoints: list[Endpoint] = []
        self._context = context
        self._only = only
        self._urls = list(urls)
        self._fleets = list(fleets.urls)
        self._queries = fleets.queries
        self._samplers = [sampler for sampler in samplers if is_url(sampler)]
        for url in (*self._urls, *self._samplers):
            _require_url(url)
        self._finds = AUTO in samplers and NONE not in samplers
        self._lists: dict[Path, int] = {}
        """Files that list samplers, and when each was last changed."""
        for sampler in samplers:
            if not is_url(sampler) and sampler not in {AUTO, NONE}:
                path = RAY if sampler == "ray" else Path(sampler).expanduser()
                if not path.is_file():
                    raise ValueError(f"{sampler}: no URL, and no file that lists samplers")
                self._lists[path] = -1
        self._seen: set[str] = set()
        self._not_asked: dict[str, None] = {}
        self._considered: object = None
        self._found: list[str] = []

    def take(self, number: int) -> list[Endpoint]:
        """Endpoints that are new since the last call, numbered from `number` on."""
        self._look_into_lists()
        if not self.waiting:
            return []
        from grpo_top.endpoints import Endpoint  # noqa: PLC0415  a run without endpoints need not wait for them
        from grpo_top.formats.kinds import KINDS, SAMPLERS  # noqa: PLC0415
        from grpo_top.formats.prometheus_server import PrometheusServer, root_of  # noqa: PLC0415
        from grpo_top.formats.served import ServedLog  # noqa: PLC0415
        from grpo_top.remote import ServedRun  # noqa: PLC0415

        network = self._asker()
        fleet = PrometheusServer(self._queries)
        kinds = (ServedRun(), fleet, *KINDS) if self._only is None else (ServedRun(), ServedLog(self._only))
        new = [
            Endpoint(number + place, url, network, kinds, self._context)
            for place, url in enumerate(self._urls)
        ]
        for url in self._fleets:
            new.append(Endpoint(number + len(new), root_of(url), network, (fleet,), self._context))
        self._seen.update(map(name_of, self._urls))
        logs = tuple(endpoint for endpoint in (*self.endpoints, *new) if not endpoint.is_sampler)
        for url, named in (*((url, True) for url in self._samplers), *((url, False) for url in self._found)):
            if name_of(url) not in self._seen:
                self._seen.add(name_of(url))
                endpoint = Endpoint(
                    number + len(new),
                    url,
                    network,
                    SAMPLERS,
                    self._context,
                    named=named,
                    is_sampler=True,
                    after=logs,
                )
                new.append(endpoint)
        self._urls, self._samplers, self._found, self._fleets = [], [], [], []
        self.endpoints += new
        return new

    def consider(self, config: Mapping[str, Any], finished: bool) -> None:
        """Note the samplers that a run's config names; they are asked where that is wanted and the run goes on."""
        if config is self._considered or not config:
            return
        self._considered = config
        for url in filter(_can_be_asked, sampler_urls(config)):
            if self._finds and not finished:
                self._found.append(url)
            elif name_of(url) not in self._seen:
                self._not_asked[url] = None

    def left_out(self) -> tuple[str, ...]:
        """Samplers that the run's config names and that are not asked, one line each."""
        return tuple(
            f"{shown(url)}: a sampler that the run's config names, not asked (--sampler {AUTO} asks it)"
            for url in self._not_asked
            if name_of(url) not in self._seen
        )

    @property
    def waiting(self) -> bool:
        """Whether an endpoint is known of that is not asked yet."""
        return bool(self._urls or self._samplers or self._found or self._fleets)

    @property
    def looked(self) -> bool:
        """Whether every endpoint's first look is over and all that it gave was read."""
        return not self.waiting and all(endpoint.looked for endpoint in self.endpoints)

    def changed(self) -> bool:
        """Whether any endpoint's state is another than at the last call."""
        return sum(endpoint.changed() for endpoint in self.endpoints) > 0

    def close(self) -> None:
        """Ask nothing more."""
        if self._asks is not None:
            self._asks.close()

    def _asker(self) -> Network:
        if self._asks is None:
            from grpo_top.sources.http import Network  # noqa: PLC0415

            given = self._network
            self._asks = Network() if given is None else given if isinstance(given, Network) else given()
        return self._asks

    def _look_into_lists(self) -> None:
        for path, before in self._lists.items():
            try:
                changed = path.stat().st_mtime_ns
                if changed != before and path.stat().st_size <= LARGEST_LIST:
                    self._lists[path] = changed
                    self._samplers += filter(_can_be_asked, targets_of(orjson.loads(path.read_bytes())))
            except (OSError, ValueError):
                continue  # it is being written: the next look reads it


def _require_url(url: str) -> None:
    try:
        origin(url)
    except ValueError as error:
        raise ValueError(f"{shown(url)}: {error}") from error


def _can_be_asked(url: str) -> bool:
    """Whether a URL that nobody typed is one."""
    try:
        origin(url)
    except ValueError:
        return False
    return True


def targets_of(listed: object) -> Iterable[str]:
    """The URLs of a list as Prometheus' file discovery has it: `[{"labels": {…}, "targets": ["host:port", …]}]`."""
    groups = listed if isinstance(listed, list) else []
    for group in groups:
        targets = group.get("targets") if isinstance(group, dict) else None
        for target in targets if isinstance(targets, list) else []:
            if isinstance(target, str) and target and not target.startswith("/"):
                yield target if is_url(target) else f"http://{target}"
