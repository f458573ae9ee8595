"""How SIGINT and SIGTERM end a process whose main thread belongs to Ray and Serve."""

import signal
import socket
import threading
from types import FrameType

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)
INSIST_S = 1.0


class StopSignals:
    """Makes SIGINT and SIGTERM end the main thread's work by KeyboardInterrupt, and only that work.

    The first asks Serve to shut down gracefully. The second cuts that short; it comes from a
    person, or after `grace_s` from here. Since libraries swallow a KeyboardInterrupt now and then,
    more follow until `finish` is called. After that signals are ignored: what is left to do is
    bounded, and interrupting it would leave processes behind.

    A signal reaches a socket as well as its handler, so none is missed while `ray.init` has a
    handler of its own for SIGTERM.
    """

    def __init__(self, grace_s: float) -> None:
        self.asked = threading.Event()
        self._grace_s = grace_s
        self._is_finished = threading.Event()
        self._numbers, self._wakeup = socket.socketpair()
        self._wakeup.setblocking(False)
        self._thread = threading.Thread(target=self._insist, name="stop-signals", daemon=True)

    def install(self) -> None:
        """Take both signals, also those that `deployments.launch` has held back."""
        self._thread.start()
        signal.set_wakeup_fd(self._wakeup.fileno(), warn_on_full_buffer=False)
        self.take_handlers()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)

    def take_handlers(self) -> None:
        """Be the one who answers; raise where a signal came while somebody else was.

        Raises:
            KeyboardInterrupt: where a stop has been asked for.
        """
        for number in STOP_SIGNALS:
            signal.signal(number, self._on_signal)
        if self.asked.is_set():
            raise KeyboardInterrupt

    def interrupt(self) -> None:
        """Do from another thread what Ctrl-C does; a sleep of the main thread ends at once."""
        main_thread = threading.main_thread().ident
        if main_thread is not None:
            signal.pthread_kill(main_thread, signal.SIGINT)

    def finish(self) -> None:
        """Ignore all further signals, and call off the abort that Ray has set up.

        Its own handler of SIGTERM, in C++, writes a stack and lets Python answer, but aborts the
        process 3 s later.
        """
        self._is_finished.set()
        signal.alarm(0)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if not self._is_finished.is_set():
            raise KeyboardInterrupt

    def _insist(self) -> None:
        while self._numbers.recv(1)[0] not in STOP_SIGNALS:
            pass
        self.asked.set()
        wait_s = self._grace_s
        while not self._is_finished.wait(wait_s):
            self.interrupt()
            wait_s = INSIST_S
