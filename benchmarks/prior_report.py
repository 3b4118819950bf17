# SPDX-License-Identifier: Apache-2.0
"""Tables of what `prior.py` measured."""

from collections import defaultdict
from itertools import takewhile

import numpy as np

from prior_digits import OURS


def error(shares: dict[str, list[float]]) -> float:
    """Mean |α̂ − α| of estimates by true share."""
    return float(np.mean([abs(x - float(a)) for a, found in shares.items() for x in found]))


def covered(rows: list[tuple[float, float, float]]) -> float:
    """Share of (truth, low, high) whose interval holds the truth."""
    return float(np.mean([low <= truth <= high for truth, low, high in rows]))


def digits_summary(found: dict) -> dict:
    methods = [name for name in next(iter(found.values())) if name != "interval"]
    errors = {m: {problem: error(rows[m]) for problem, rows in found.items()} for m in methods}
    intervals = [
        (float(a), low, high)
        for rows in found.values()
        for a, ends in rows["interval"].items()
        for low, high in ends
    ]
    return {
        "mean_absolute_error": {
            m: by | {"mean": float(np.mean([*by.values()]))} for m, by in errors.items()
        },
        "interval_coverage": covered(intervals),
    }


def digits_table(summary: dict) -> str:
    errors = summary["mean_absolute_error"]
    problems = list(errors[OURS])
    lines = [f"| mean \\|α̂ − α\\| | {' | '.join(problems)} |", "|---" * (len(problems) + 1) + "|"]
    for method, by in sorted(errors.items(), key=lambda item: item[1]["mean"]):
        lines.append(f"| {method} | {' | '.join(f'{by[p]:.3f}' for p in problems)} |")
    lines.append(
        f"\nThe 95% intervals of ours hold the truth in {summary['interval_coverage']:.0%}."
    )
    return "\n".join(lines)


def mixtures_summary(rows: list[dict]) -> dict:
    by: dict = defaultdict(list)
    for row in rows:
        by[row["demonstrations"]].append(row)
    return {
        str(count): {
            "mean_absolute_error": float(np.mean([abs(r["value"] - r["share"]) for r in part])),
            "largest_error": float(np.max([abs(r["value"] - r["share"]) for r in part])),
            "interval_coverage": covered([(r["share"], r["low"], r["high"]) for r in part]),
            "interval_width": float(np.mean([r["high"] - r["low"] for r in part])),
            "all_successes_least": min(r["value"] for r in part if r["share"] == 1.0),
            "all_failures_most": max(r["value"] for r in part if r["share"] == 0.0),
            "estimates": len(part),
        }
        for count, part in by.items()
    }


def mixtures_table(summary: dict) -> str:
    lines = [
        "| demonstrations | mean \\|η̂ − η\\| | largest | coverage of the 95% intervals | their "
        "width | least η̂ at η = 1 | largest η̂ at η = 0 | estimates |",
        "|---" * 8 + "|",
    ]
    for count, s in summary.items():
        lines.append(
            f"| {count} | {s['mean_absolute_error']:.3f} | {s['largest_error']:.3f} | "
            f"{s['interval_coverage']:.0%} | {s['interval_width']:.2f} | "
            f"{s['all_successes_least']:.3f} | {s['all_failures_most']:.3f} | {s['estimates']} |"
        )
    return "\n".join(lines)


def drift_summary(courses: list[list[dict]]) -> dict:
    told = [row for course in courses for row in course]
    drops = [_answers_to_settle(course) for course in courses]

    def mean_error(of) -> float:
        return float(np.mean([abs(of(r) - r["share"]) for r in told]))

    return {
        "estimate_error": mean_error(lambda r: r["value"]),
        "smoothed_error": mean_error(lambda r: r["smoothed"]),
        "fixed_half_error": mean_error(lambda r: 0.5),
        "interval_coverage": covered([(r["share"], r["low"], r["high"]) for r in told]),
        "answers_to_settle_after_the_drop": drops,
    }


def _answers_to_settle(course: list[dict]) -> int | None:
    """How often it is asked after the drop until the smoothed η is within 0.1, if ever."""
    shares = [row["share"] for row in course]
    drop = next(i for i in range(1, len(shares)) if shares[i] < shares[i - 1])
    level = takewhile(lambda row: row["share"] == shares[drop], course[drop:])
    near = (n for n, row in enumerate(level, 1) if abs(row["smoothed"] - row["share"]) <= 0.1)
    return next(near, None)


def drift_table(summary: dict) -> str:
    return "\n".join(
        [
            "| mean \\|η̂ − η\\| of | |",
            "|---|---|",
            f"| each estimate | {summary['estimate_error']:.3f} |",
            f"| the smoothed η, lag included | {summary['smoothed_error']:.3f} |",
            f"| η = 0.5 throughout | {summary['fixed_half_error']:.3f} |",
            "",
            f"The intervals hold the truth in {summary['interval_coverage']:.0%}. After the drop "
            "the smoothed η is within 0.1 of the truth at answer "
            f"{', '.join(map(str, summary['answers_to_settle_after_the_drop']))} (one a course).",
        ]
    )


def gap_summary(looks: dict[str, list[list[dict]]]) -> dict:
    last = {look: [course[-1] for course in courses] for look, courses in looks.items()}
    return {
        look: {
            "auc": float(np.mean([r["auc"] for r in rows])),
            "estimate": float(np.mean([r["value"] for r in rows])),
            "used": [r["smoothed"] for r in rows],
            "warned": sum(bool(r["warning"]) for r in rows),
            "courses": len(rows),
        }
        for look, rows in last.items()
    }


def gap_table(summary: dict) -> str:
    lines = ["| | AUC | η̂ | η used | warned |", "|---|---|---|---|---|"]
    for look, s in summary.items():
        used = ", ".join(f"{x:.2f}" for x in s["used"])
        lines.append(
            f"| {look} | {s['auc']:.3f} | {s['estimate']:.3f} | {used} | "
            f"{s['warned']} of {s['courses']} |"
        )
    return "\n".join(lines)


def others_summary(rows: list[dict]) -> list[dict]:
    by: dict = defaultdict(list)
    for row in rows:
        by[row["prior_name"], row["mixup_weight"]].append(row)
    return [
        {
            "prior": name,
            "mixup_weight": weight,
            "mean_absolute_error": float(np.mean([abs(r["value"] - r["share"]) for r in part])),
            "interval_coverage": covered([(r["share"], r["low"], r["high"]) for r in part]),
            **{key: float(np.mean([r[key] for r in part])) for key in _CHANCES},
        }
        for (name, weight), part in by.items()
    ]


_CHANCES = ("d_success", "d_failure", "top")


def others_table(summary: list[dict]) -> str:
    lines = [
        "| | mean \\|η̂ − η\\| | coverage | D on successes | D on failures | top of D |",
        "|---|---|---|---|---|---|",
    ]
    for s in summary:
        name = f"vpu, λ = {s['mixup_weight']}" if s["prior"] == "vpu" else s["prior"]
        chances = " | ".join(f"{s[key]:.2f}" for key in _CHANCES)
        lines.append(
            f"| {name} | {s['mean_absolute_error']:.3f} | {s['interval_coverage']:.0%} | "
            f"{chances} |"
        )
    return "\n".join(lines)


SUMMARIES = {
    "digits": (digits_summary, digits_table),
    "mixtures": (mixtures_summary, mixtures_table),
    "drift": (drift_summary, drift_table),
    "gap": (gap_summary, gap_table),
    "others": (others_summary, others_table),
}
