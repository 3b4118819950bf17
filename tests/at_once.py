"""An executor that does a job when it is started, for tests of what uses one."""

from pureward.errors import InputError


class AtOnce:
    """An executor of three lines: the seam for others."""

    at_once = 2

    def __init__(self) -> None:
        self.started: list[str] = []

    def start(self, job):
        self.started.append(job.out.name)
        return Ended(job)


class Ended:
    def __init__(self, job) -> None:
        try:
            self._state, self._said = ("finished" if job.run() else "stopped"), ""
        except InputError as error:
            self._state, self._said = "failed", str(error)

    def running(self) -> bool:
        return False

    def ended(self):
        return self._state

    def last_words(self) -> str:
        return self._said

    def stop(self) -> None: ...

    def wait(self) -> None: ...
