"""Videos for tests, written with PyAV."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path

import av
import numpy as np


def write_film(
    path: Path,
    images: np.ndarray,
    codec: str = "ffv1",
    layout: str = "bgr0",
    *,
    times: Sequence[int] | None = None,
    **options: str,
) -> Path:
    """Write images (count, height, width, 3 or 4) at 10 per second, or at times in milliseconds."""
    with _kept_priority(), av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=10)
        stream.height, stream.width = images.shape[1:3]
        stream.pix_fmt, stream.options = layout, options
        if times is not None:
            stream.time_base = stream.codec_context.time_base = Fraction(1, 1000)
        for number, image in enumerate(images):
            kind = "rgb24" if image.shape[-1] == 3 else "rgba"
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(image), format=kind)
            if times is not None:
                frame.pts, frame.time_base = times[number], Fraction(1, 1000)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


@contextmanager
def _kept_priority() -> Iterator[None]:
    """Restore the scheduling of this thread: as root, SVT-AV1 makes it real-time.

    A real-time process, and the processes that it starts later, can block a core for all others.
    """
    policy, parameters = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        yield
    finally:
        os.sched_setscheduler(0, policy, parameters)
