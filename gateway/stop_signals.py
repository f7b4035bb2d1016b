"""Shell: end the event streams before Granian sees a signal to stop.

Granian waits for running requests, so that every purchase gets its answer, but a stream may run for half an hour. So
the process blocks the signals, a thread takes the first one, and Granian gets it after the streams were told to end.
`hold_signals` must run before any other thread starts, because threads inherit what is blocked.
"""

from __future__ import annotations

import os
import signal
import threading
from asyncio import AbstractEventLoop
from collections.abc import Callable

SIGNALS = {signal.SIGTERM, signal.SIGINT}


def hold_signals() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)


def release_signals_after(end_streams: Callable[[], None], loop: AbstractEventLoop) -> None:
    """Called on the loop's thread, which is the main thread."""

    def release(number: int) -> None:
        end_streams()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        os.kill(os.getpid(), number)

    def wait() -> None:
        number = signal.sigwait(SIGNALS)
        loop.call_soon_threadsafe(release, number)

    threading.Thread(target=wait, name="stop signals", daemon=True).start()
