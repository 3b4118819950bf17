"""Metrics of a run."""

from pureward.runs.log import MetricsLog, read_metrics


def test_metrics_have_seven_digits(tmp_path):
    path = tmp_path / "metrics.jsonl"
    with MetricsLog(path, tmp_path / "events") as log:
        log.write("eval", 123_456_789, {"return": 0.1234567891, "small": 1e-12 / 3, "updates": 7})
    text = path.read_text()
    assert '"step": 123456789, "return": 0.1234568, "small": 3.333333e-13, "updates": 7}' in text
    assert read_metrics(path)[0]["return"] == 0.1234568
