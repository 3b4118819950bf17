# SPDX-License-Identifier: Apache-2.0
"""A report on runs as one HTML file: curves, P(success), η, evidence and verdicts, explained.

Sentences about a run are made of its metrics; only the explanations of the plots are fixed.
Images are inside the file; it needs no script and no network.
"""

import base64
import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from pureward.diagnostics.history import History, read_eta, read_histories, trained_for
from pureward.diagnostics.lines import Line, lines
from pureward.diagnostics.plot import PRIOR, SUCCESS, curves
from pureward.diagnostics.probe import SOURCES
from pureward.diagnostics.verdict import LARGE_GAP, MOST, OVERFIT, describe_reward
from pureward.files import read_file, whole_file
from pureward.rewards.methods import METHODS

_DOTS_PER_INCH = 110
_IMAGE_BYTES = 2**26  # largest evidence.png that is read

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #222; background: #fdfdfb; margin: 0 auto;
       max-width: 60rem; padding: 1.5rem; }
h1 { font-size: 1.7rem; } h2 { font-size: 1.25rem; margin-top: 2.2rem; }
table { border-collapse: collapse; margin: 1rem 0; font-size: .92rem; }
th, td { text-align: left; padding: .3rem .9rem .3rem 0; border-bottom: 1px solid #ddd; }
td:nth-child(4), td:nth-child(5) { text-align: right; font-variant-numeric: tabular-nums; }
img { max-width: 100%; height: auto; display: block; margin: .8rem 0; }
.read { color: #555; font-size: .92rem; } dt { font-weight: 600; margin-top: .6rem; }
"""
_CURVES = {
    "demonstrations": "The reward is −log(1 − D). gail trains D with all of the agent's frames as "
    "failures; nn-pugail treats them as unlabeled.",
    "annotations": "prl pays the agent the regressed reward r_φ; nn-purl pays it only where a "
    "discriminator accepts the frame, [D > ½]·r_φ.",
}
_SUCCESS = (
    "Each line is the share of frames that D calls a success. If D overfits, trained "
    "demonstrations stay near 1, held-out ones fall, and the agent's frames stay at 0. "
    "For gated methods D means trust in r_φ, which holds for annotated failures too."
)
_PRIOR = (
    "η is the share of the agent's frames that are like the demonstrations. By the simulator it is "
    "the share of successes among them, divided by that among the demonstrations; no learner sees "
    "it. The band is the 95% interval of each estimate."
)
_EVIDENCE = (
    "The two greedy episodes whose learned reward is highest compared with the true one: by "
    "predicted − true return; for imitation, by high rewards for low true ones."
)


@dataclass(frozen=True, kw_only=True)
class FinalReturn:
    """The last greedy return of a line's runs, averaged over seeds."""

    label: str
    mean: float
    spread: float
    """Half of the 95% interval over the episodes of one seed, or of the range over several."""
    best: float
    """The best evaluation of each run, averaged over seeds."""
    expert: float | None

    def in_words(self) -> str:
        """The return, and its share of the expert's or the best annotated one."""
        share = f" ({self.mean / self.expert:.0%} of {self.expert:.1f})" if self.expert else ""
        return f"{self.mean:.1f} ± {self.spread:.1f}{share}"


def final_return(line: Line) -> FinalReturn | None:
    """Return the last return of a line, or None if no run has been evaluated."""
    series = line.series("eval", "return")
    if not series:
        return None
    last = np.array([one[-1, 1] for one in series])
    within = [one[-1, 1] for one in line.series("eval", "return_ci95")]
    return FinalReturn(
        label=line.label,
        mean=float(last.mean()),
        spread=float(np.ptp(last)) / 2 if len(last) > 1 else max(within, default=0.0),
        best=float(np.mean([one[:, 1].max() for one in series])),
        expert=next((run.expert for run in line.runs if run.expert is not None), None),
    )


def write_report(
    path: Path, runs: Sequence[Path], *, title: str = "Learned rewards", notes: Sequence[str] = ()
) -> list[History]:
    """Write a self-contained HTML report on runs, and return the runs as read.

    Args:
        path: the file.
        runs: run directories; RUN/probe/evidence.png is shown if `pureward probe` has written it.
        title: its heading.
        notes: paragraphs on how the runs were made.
    """
    found = read_histories(runs)
    verdicts = [(escape(run.path.name), run.verdict()) for run in found]
    terms = [f"<dt>{n}: {v.name}</dt><dd>{escape(v.sentence)}.</dd>" for n, v in verdicts]
    sections = {
        "What was run": ("", [_paragraphs(notes), _table(found)]),
        "Verdicts": ("", ["<dl>", *terms, "</dl>"]),
        **{f"From {kind}": (text, _curves(kind, found)) for kind, text in _CURVES.items()},
        "P(success)": (_SUCCESS, _success(found)),
        "Class prior": (_PRIOR, _prior(found)),
        "Evidence": (_EVIDENCE, _evidence(found)),
    }
    parts = []
    for heading, (explanation, own) in sections.items():
        read = f'<p class="read">{escape(explanation)}</p>' if explanation else ""
        parts += [f"<h2>{escape(heading)}</h2>", read, *own] if own else []
    page = (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{escape(title)}</h1>\n" + "\n".join(parts) + "\n</body></html>\n"
    )
    with whole_file(path) as partial:
        partial.write_text(page, encoding="utf-8")
    return found


def _table(runs: Sequence[History]) -> str:
    head = ("run", "task", "method", "env steps", "training, s", "true return", "verdict")
    rows = ["".join(f"<th>{name}</th>" for name in head)]
    for run in runs:
        steps, seconds = trained_for(run)
        end = final_return(*lines([run]))
        cells = (run.path.name, run.task, run.method, f"{steps:,}", f"{seconds:.0f}")
        cells += (end.in_words() if end else "–", run.verdict().name)
        rows.append("".join(f"<td>{escape(cell)}</td>" for cell in cells))
    return f"<table>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"


def _curves(kind: str, found: Sequence[History]) -> list[str]:
    """Curves of all methods on one kind of data; the last one is compared with the others."""
    runs = [run for run in found if METHODS[run.method].positives == kind]
    if not runs:
        return []
    sentences = []
    for task in dict.fromkeys(run.task for run in runs):
        own = lines([run for run in runs if run.task == task])
        *others, last = sorted(own, key=lambda line: list(METHODS).index(line.method))
        sentences += compare(last, others)
    if kind == "annotations":
        sentences += [describe_error(run) for run in runs]
    images = [_image(curves(runs), kind)] if any(map(final_return, lines(runs))) else []
    return [*images, _paragraphs([" ".join(sentences)])]


def _success(found: Sequence[History]) -> list[str]:
    shares = {f"success/{source}" for source in SOURCES}
    probed = [run for run in found if any(shares & row.keys() for row in run.rows)]
    if not probed:
        return []
    image = _image(curves(probed, metric=SUCCESS), "P(success)")
    return [image, _paragraphs(map(describe_success, probed))]


def _prior(found: Sequence[History]) -> list[str]:
    known = [(run, eta) for run in found if (eta := read_eta(run)) is not None]
    if not known:
        return []
    image = _image(curves([run for run, _ in known], metric=PRIOR), "class prior")
    texts = [f"{run.path.name}: {eta.sentence}." for run, eta in known]
    return [image, _paragraphs(texts)]


def _evidence(found: Sequence[History]) -> list[str]:
    images = [(run.path.name, run.path / "probe" / "evidence.png") for run in found]
    return [
        f"<h3>{escape(name)}</h3>\n{_embedded(read_file(png, _IMAGE_BYTES), f'evidence of {name}')}"
        for name, png in images
        if png.is_file() and not png.is_symlink()
    ]


def _paragraphs(texts: Iterable[str]) -> str:
    return "\n".join(f"<p>{escape(text)}</p>" for text in texts)


def _image(figure: Figure, name: str) -> str:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=_DOTS_PER_INCH)
    return _embedded(buffer.getvalue(), name)


def _embedded(png: bytes, name: str) -> str:
    data = base64.b64encode(png).decode()
    return f'<img alt="{escape(name)}" src="data:image/png;base64,{data}">'


def compare(line: Line, others: Sequence[Line]) -> list[str]:
    """Compare the last return of a line with those of others of its task."""
    own = final_return(line)
    if own is None:
        return ["None of these runs has been evaluated yet."]
    ends = [own, *(end for end in map(final_return, others) if end)]
    sentences = [f"At the end: {'; '.join(f'{end.label} {end.in_words()}' for end in ends)}."]
    for end in ends[1:]:
        ahead = own.mean - end.mean
        if abs(ahead) <= own.spread + end.spread:
            sentences.append(f"{own.label} and {end.label} do not differ by more than the spread.")
        else:
            side = "ahead of" if ahead > 0 else "behind"
            sentences.append(f"{own.label} is {abs(ahead):.1f} {side} {end.label}.")
    fell = [end for end in ends if end.best - end.mean > LARGE_GAP * abs(end.best)]
    sentences += [f"{end.label} fell from its best return of {end.best:.1f}." for end in fell]
    if max(len(one.runs) for one in (line, *others)) == 1:
        sentences.append("One seed each: the interval is over episodes; other seeds may differ.")
    return sentences


def describe_success(run: History) -> str:
    """Return P(success) of each source at the end of a run, and whether D has overfitted."""
    numbers = run.verdict().numbers
    sentence = f"{run.method}: {describe_reward(numbers)}."
    trained, held_out = (numbers.get(f"success/{s}", math.nan) for s in ("train", "held_out"))
    if trained - held_out > OVERFIT:
        sentence += " D has overfitted to its trained frames."
    elif trained - held_out <= OVERFIT and held_out >= MOST:  # neither if one is NaN
        sentence += " D generalises to held-out frames."
    return sentence


def describe_error(run: History) -> str:
    """Return how far the predicted return of a supervised method is from the true one."""
    verdict = run.verdict()
    if "reward_error" not in verdict.numbers:
        return f"{run.method}: its predictions were not evaluated."
    error = verdict.numbers["reward_error"]
    share = f", {error / run.expert:+.0%} of the best annotated return" if run.expert else ""
    harm = f" ({verdict.name})" if verdict.name in ("reward hacked", "starved") else ""
    return f"{run.method}: predicted − true return is {error:+.1f}{share}{harm}."
