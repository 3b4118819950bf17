"""An executor that runs each job inside `start`, for tests."""

from pureward.errors import InputError


class AtOnce:
    at_once = 2

    def __init__(self) -> None:
        self.started: list[str] = []

    def start(self, job):
        self.started.append(job.out.name)
        return Ended(job)


class Ended:
    def __init__(self, job) -> None:
        try:
            self._result, self._line = ("finished" if job.run() else "stopped"), ""
        except InputError as error:
            self._result, self._line = "failed", str(error)

    def running(self) -> bool:
        return False

    def result(self):
        return self._result

    def last_line(self) -> str:
        return self._line

    def stop(self) -> None: ...

    def wait(self) -> None: ...
