"""Where one place holds several runs, one of them is read, and what is not read is said."""

from pathlib import PurePath

from grpo_top.formats.base import RunContext
from grpo_top.formats.choice import choice_of, is_read

A, B = PurePath("/logs/run-a"), PurePath("/logs/run-b")


def offered(wanted=None):
    context = RunContext(wanted=wanted)
    choice = choice_of(context, "tracker")
    choice.offer("a", 2.0, "first", A)
    choice.offer("b", 3.0, "second", B)
    return context, choice


def test_the_run_that_began_last_is_read():
    assert offered()[1].chosen == "b"


def test_the_run_that_the_user_names_is_read_by_its_name_or_its_id():
    assert offered("first")[1].chosen == offered("a")[1].chosen == "a"


def test_a_name_that_no_run_has_is_no_wish():
    assert offered("third")[1].chosen == "b"


def test_a_run_that_begins_later_is_not_mixed_in():
    _, choice = offered()
    assert choice.is_read("b")
    choice.offer("c", 9.0)
    assert not choice.is_read("c")


def test_files_below_a_runs_folder_go_with_it():
    context, _ = offered()
    assert is_read(context, B / "files" / "output.log")
    assert not is_read(context, A / "files" / "output.log")
    assert is_read(context, PurePath("/logs/trainer_state.json"))


def test_only_a_run_that_is_allowed_is_chosen():
    _, choice = offered()
    choice.allow({"a"})
    assert choice.chosen == "a"
    choice.allow({"b"})
    assert choice.chosen == "a"
    _, choice = offered("b")
    choice.allow(())
    assert choice.chosen is None


def test_each_tracker_has_a_choice_of_its_own():
    context, _ = offered()
    choice_of(context, "other").offer("x", 1.0, folder=PurePath("/logs/tensorboard"))
    assert is_read(context, PurePath("/logs/tensorboard/events"))


def test_what_is_not_read_is_said_with_the_way_to_read_it():
    _, choice = offered()
    assert choice.note(["b"]) == choice.note([]) == ""
    assert choice.note(["a", "b"]) == "second is read, not first; --run NAME reads another"
    assert choice.note(["a"]) == "not read: first; give its path alone to read it"


def test_of_many_runs_the_last_are_named():
    context = RunContext()
    choice = choice_of(context, "tracker")
    for number in range(9):
        choice.offer(str(number), number)
    assert choice.note(map(str, range(9))).startswith("8 is read, not 5, 6, 7, …; ")
