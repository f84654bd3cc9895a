"""Which steps are finished."""

from grpo_top.pace import PATIENCE, StepPace


def test_a_step_is_finished_when_its_writer_has_gone_on() -> None:
    pace = StepPace()
    pace.note("rollouts", 1, 8)
    assert pace.take_finished() == []
    pace.note("rollouts", 2, 1)
    assert pace.take_finished() == [1]


def test_a_step_is_finished_when_it_holds_what_the_step_before_held() -> None:
    pace = StepPace()
    pace.note("rollouts", 1, 8)
    pace.note("rollouts", 2, 7)
    assert pace.take_finished() == [1]
    pace.note("rollouts", 2, 1)
    assert pace.take_finished() == [2]


def test_a_step_waits_for_every_writer_that_regularly_takes_part() -> None:
    pace = StepPace()
    for step in (1, 2, 3):
        pace.note("rollouts", step, 8)
        pace.note("trainer", step, 1)
    pace.take_finished()
    pace.note("rollouts", 4, 8)
    pace.note("rollouts", 5, 8)
    assert pace.take_finished() == []
    pace.note("trainer", 4, 1)
    assert pace.take_finished() == [4]


def test_a_step_does_not_wait_for_a_silent_writer_for_ever() -> None:
    pace = StepPace()
    for step in (1, 2):
        pace.note("rollouts", step, 8)
        pace.note("trainer", step, 1)
    for step in range(3, 3 + PATIENCE + 1):
        pace.note("rollouts", step, 8)
    assert 3 in pace.take_finished()


def test_a_record_of_a_finished_step_is_late() -> None:
    pace = StepPace()
    assert not pace.note("rollouts", 1, 8)
    assert not pace.note("rollouts", 2, 8)
    pace.take_finished()
    assert pace.note("rollouts", 1, 1)


def test_everything_is_finished_when_the_source_ends_in_ascending_order() -> None:
    pace = StepPace()
    for step in (3, 1, 2):
        pace.note("rollouts", step, 1)
    assert pace.take_finished(ended=True) == [1, 2, 3]
