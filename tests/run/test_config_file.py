"""Settings on disk: what differs is told by name, and what cannot matter is not."""

from dataclasses import replace

from pureward.purl import PurlConfig
from pureward.run.config import RunConfig
from pureward.run.config_file import differences, flat


def test_nested_settings_by_name():
    assert flat({"a": 1, "b": {"c": 2, "d": {"e": 3}}}) == {"a": 1, "b.c": 2, "b.d.e": 3}


def test_a_difference_is_told_where_it_is():
    run = RunConfig(method="gail", demonstrations="data")
    other = replace(run, reward=PurlConfig(ceiling=0.5), out="elsewhere")
    assert differences(run, run) == []
    assert differences(run, other) == ["reward.ceiling 1.0 → 0.5"]
    assert differences(run, other, apart={"reward"}) == ["out runs/latest → elsewhere"]


def test_a_run_on_the_task_s_reward_has_no_settings_of_a_learned_one():
    run = RunConfig()
    assert differences(run, replace(run, reward=PurlConfig(ceiling=0.5))) == []
    assert differences(run, replace(run, batch=7)) == [f"batch {run.batch} → 7"]
