"""Every sampled tracker against what the tracker's own reader gave: every series, exactly."""

import json
import math
from pathlib import Path

import pytest
from tracker_samples import SAMPLES, expected, known

from grpo_top.config import Settings
from grpo_top.monitor import Monitor

SHARED = Path(__file__).parents[3] / "shared" / "samples"

pytestmark = pytest.mark.skipif(not SHARED.is_dir(), reason="the samples lie beside the project")


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: f"{sample.tracker}-{sample.truth}")
def test_every_series_equals_the_trackers_own(sample):
    monitor = Monitor(
        [str(SHARED / sample.tracker / sample.where)],
        Settings(run={"name": sample.wanted} if sample.wanted else {}),
    )
    monitor.read_all()
    snapshot = monitor.snapshot(finished=True)
    truth = json.loads((SHARED / "truth" / f"{sample.tracker}-{sample.truth}.json").read_text())
    series = expected(sample, truth["series"])
    assert len(series) == 15
    for name, points in series.items():
        found = known(snapshot, name)
        assert found.keys() == points.keys(), name
        computed_here = bool(snapshot.run.rollouts) and name.startswith("component_mean")
        for step, value in points.items():
            if computed_here:
                assert found[step] == pytest.approx(value, abs=1e-6), (name, step)
            else:
                assert found[step] == value or (math.isinf(found[step]) and not math.isfinite(value)), (
                    name,
                    step,
                )
