from specengine.statistics import Statistics


def test_each_drafter_is_counted_for_itself() -> None:
    stats = Statistics()
    stats.count_prompt_pass()
    stats.count_round(4, 2, "lookup")
    stats.count_round(0, 0)
    stats.count_round(3, 3, "model")
    stats.count_round(5, 1, "lookup")
    counts = stats.speculation()
    assert counts["by_drafter"] == {
        "lookup": {"rounds": 2, "drafted": 9, "accepted": 3},
        "model": {"rounds": 1, "drafted": 3, "accepted": 3},
    }
    assert (counts["rounds"], counts["drafted"], counts["accepted"]) == (4, 12, 6)
    assert (counts["corrected"], counts["bonus"]) == (2, 3)


def test_a_snapshot_stays_as_it_was() -> None:
    stats = Statistics()
    stats.count_round(2, 1, "lookup")
    before = stats.snapshot()
    stats.count_round(2, 2, "lookup")
    assert before.by_drafter["lookup"].accepted == 1
    assert before.accepted_per_position == [1, 0]
