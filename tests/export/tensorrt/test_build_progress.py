from export.tensorrt.build_progress import BuildProgress


def test_the_steps_of_the_outermost_phase_are_shown_with_what_was_done_last(capsys):
    account = BuildProgress("vit/model")
    account.phase_start("Building Engine", None, 2)
    account.phase_start("Tactic Selection", "Building Engine", 100)
    for step in range(100):
        assert account.step_complete("Tactic Selection", step)
    account.phase_finish("Tactic Selection")
    assert account.step_complete("Building Engine", 0)
    assert account.step_complete("Building Engine", 1)
    account.phase_finish("Building Engine")
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(" (")[0] for line in lines] == [
        "vit/model: Building Engine 1/2",
        "vit/model: Building Engine 2/2",
    ]
    assert lines[0].endswith("Tactic Selection")


def test_an_interrupted_build_is_told_to_end_and_raises_nothing_into_the_builder():
    account = BuildProgress("vit/model")
    account.phase_start("Building Engine", None, 2)

    def interrupt(_):
        raise KeyboardInterrupt

    account._advance["Building Engine"] = interrupt
    assert account.step_complete("Building Engine", 0) is False
    assert account.stopped
    assert account.step_complete("Tactic Selection", 7) is False
    account.phase_finish("Building Engine")


def test_steps_of_phases_that_never_began_are_no_error():
    account = BuildProgress("vit/model")
    assert account.step_complete("Unknown", 3)
    account.phase_finish("Unknown")
