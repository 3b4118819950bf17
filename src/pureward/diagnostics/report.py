# SPDX-License-Identifier: Apache-2.0
"""A report on runs as one HTML file: curves, P(success), evidence, verdicts, and how to read them.

Every sentence about a run is made of what it measured (`reading`); only the words on how a
picture is to be read are fixed. Pictures are inside the file; it needs no script and no network.
"""

import base64
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from matplotlib.figure import Figure

from pureward.diagnostics.eta import read_eta
from pureward.diagnostics.history import History, read_histories
from pureward.diagnostics.lines import lines
from pureward.diagnostics.plot import PRIOR, SUCCESS, curves
from pureward.diagnostics.reading import ending, read_curves, read_error, read_success, trained_for
from pureward.files import read_file, whole_file
from pureward.rewards.methods import METHODS, Positives

_DOTS_PER_INCH = 110
_PICTURE_BYTES = 2**26  # of a picture that is taken in

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #222; background: #fdfdfb; margin: 0 auto;
       max-width: 60rem; padding: 1.5rem; }
h1 { font-size: 1.7rem; } h2 { font-size: 1.25rem; margin-top: 2.2rem; }
table { border-collapse: collapse; margin: 1rem 0; font-size: .92rem; }
th, td { text-align: left; padding: .3rem .9rem .3rem 0; border-bottom: 1px solid #ddd; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
img { max-width: 100%; height: auto; display: block; margin: .8rem 0; }
.read { color: #555; font-size: .92rem; } dt { font-weight: 600; margin-top: .6rem; }
code { background: #f0efe9; padding: .1rem .3rem; border-radius: 3px; }
"""

_KINDS: dict[Positives, tuple[str, str]] = {
    "demonstrations": (
        "From demonstrations",
        "The reward is −log(1 − D). gail trains D to call everything the agent does a failure; "
        "nn-pugail treats it as unlabeled.",
    ),
    "annotations": (
        "From annotated episodes",
        "prl pays the agent the regressed reward r_φ as it is; nn-purl pays it only where a "
        "discriminator trusts it, [D > ½]·r_φ.",
    ),
}
_READ_SUCCESS = (
    "Each line is the share of frames that D calls a success. A discriminator that has won keeps "
    "the trained demonstrations near 1 while the held-out ones sink, and the agent's stay at 0. "
    "For gated methods D means trust in r_φ, and annotated failures are to be trusted too."
)
_READ_PRIOR = (
    "η is the share of demonstrated behaviour among the agent's frames. By the simulator it is the "
    "share of successes among them, relative to that among the demonstrations; no learner sees it. "
    "The band is the 95% interval of each estimate."
)
_READ_EVIDENCE = (
    "Of the greedy episodes, the two where reward and truth part most. For predictions that is "
    "where the promised return is furthest from the true one; for imitation, where much is paid "
    "for little."
)


@dataclass(frozen=True, kw_only=True)
class Section:
    """A heading and what stands under it, as HTML."""

    title: str
    parts: Sequence[str]

    def html(self) -> str:
        """The section."""
        return f"<h2>{escape(self.title)}</h2>\n" + "\n".join(self.parts)


def write_report(
    path: Path, runs: Sequence[Path], *, title: str = "Learned rewards", notes: Sequence[str] = ()
) -> list[History]:
    """Write a self-contained HTML report on runs; returns what was read of them.

    Args:
        path: the file.
        runs: run directories; RUN/probe/evidence.png is shown where `pureward probe` made it.
        title: its heading.
        notes: paragraphs on how the runs were made.
    """
    histories = read_histories(runs)
    sections = [
        Section(title="What was run", parts=[_paragraphs(notes), _table(histories)]),
        Section(title="Verdicts", parts=[_verdicts(histories)]),
        *(
            _curves(kind, [run for run in histories if METHODS[run.method].positives == kind])
            for kind in _KINDS
            if any(METHODS[run.method].positives == kind for run in histories)
        ),
        *_success(histories),
        *_prior(histories),
        *_evidence(histories),
    ]
    page = (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{escape(title)}</h1>\n" + "\n".join(s.html() for s in sections) + "\n</body></html>\n"
    )
    with whole_file(path) as partial:
        partial.write_text(page, encoding="utf-8")
    return histories


def _table(runs: Sequence[History]) -> str:
    head = ("run", "task", "method", "env steps", "training, s", "true return", "verdict")
    rows = [f"<tr>{''.join(f'<th>{name}</th>' for name in head)}</tr>"]
    for run in runs:
        steps, seconds = trained_for(run)
        end = ending(*lines([run]))
        cells = [
            *(f"<td>{escape(text)}</td>" for text in (run.path.name, run.task, run.method)),
            *(f'<td class="number">{number}</td>' for number in (f"{steps:,}", f"{seconds:.0f}")),
            f"<td>{escape(end.told_return()) if end else '–'}</td>",
            f"<td>{escape(run.verdict().name)}</td>",
        ]
        rows.append(f"<tr>{''.join(cells)}</tr>")
    return f"<table>{''.join(rows)}</table>"


def _verdicts(runs: Sequence[History]) -> str:
    told = [(run.path.name, run.verdict()) for run in runs]
    items = (f"<dt>{escape(name)}: {v.name}</dt><dd>{escape(v.sentence)}.</dd>" for name, v in told)
    return f"<dl>{''.join(items)}</dl>"


def _curves(kind: Positives, runs: Sequence[History]) -> Section:
    """Curves of all methods on one kind of data; the last of the table is set against others."""
    title, explained = _KINDS[kind]
    told = []
    for task in dict.fromkeys(run.task for run in runs):
        own = lines([run for run in runs if run.task == task])
        *others, ours = sorted(own, key=lambda line: list(METHODS).index(line.method))
        told += read_curves(ours, others)
    if kind == "annotations":
        told += [read_error(run) for run in runs]
    parts = [f'<p class="read">{escape(explained)}</p>']
    if any(map(ending, lines(runs))):  # else there is nothing to draw yet
        parts.append(_picture(curves(runs), title))
    return Section(title=title, parts=[*parts, _paragraphs([" ".join(told)])])


def _success(runs: Sequence[History]) -> list[Section]:
    probed = [run for run in runs if any(row["kind"] == "probe" for row in run.rows)]
    probed = [run for run in probed if METHODS[run.method].has_discriminator]
    if not probed:
        return []
    told = [read_success(run) for run in probed]
    parts = [
        f'<p class="read">{escape(_READ_SUCCESS)}</p>',
        _picture(curves(probed, metric=SUCCESS), "P(success)"),
        _paragraphs(told),
    ]
    return [Section(title="P(success)", parts=parts)]


def _prior(runs: Sequence[History]) -> list[Section]:
    known = [(run, eta) for run in runs if (eta := read_eta(run)) is not None]
    if not known:
        return []
    parts = [
        f'<p class="read">{escape(_READ_PRIOR)}</p>',
        _picture(curves([run for run, _ in known], metric=PRIOR), "class prior"),
        _paragraphs(f"{run.path.name}: {eta.told()}." for run, eta in known),
    ]
    return [Section(title="Class prior", parts=parts)]


def _evidence(runs: Sequence[History]) -> list[Section]:
    shown = [(run, run.path / "probe" / "evidence.png") for run in runs]
    parts = [
        f"<h3>{escape(run.path.name)}</h3>\n"
        f"{_embedded(read_file(png, _PICTURE_BYTES), f'evidence of {run.path.name}')}"
        for run, png in shown
        if png.is_file() and not png.is_symlink()
    ]
    if not parts:
        return []
    return [Section(title="Evidence", parts=[f'<p class="read">{_READ_EVIDENCE}</p>', *parts])]


def _paragraphs(texts: Iterable[str]) -> str:
    return "\n".join(f"<p>{escape(text)}</p>" for text in texts)


def _picture(figure: Figure, name: str) -> str:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=_DOTS_PER_INCH)
    return _embedded(buffer.getvalue(), name)


def _embedded(png: bytes, name: str) -> str:
    data = base64.b64encode(png).decode()
    return f'<img alt="{escape(name)}" src="data:image/png;base64,{data}">'
