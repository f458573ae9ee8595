"""A stop reaches the main thread whoever answers the signal, and never after the end has begun."""

import subprocess
import sys

import pytest

from configs.paths import REPOSITORY

# Each script runs in a process of its own, since signals belong to the whole process.
SETUP = """
import os, signal, sys, threading, time
from deployments.stop_signals import STOP_SIGNALS, StopSignals
stop = StopSignals(grace_s={grace_s})
"""
ENDLESS = "time.sleep(60)"


def run(script: str, grace_s: float = 60) -> str:
    """What a script prints; it fails where the script does, or takes 20 s."""
    done = subprocess.run(
        [sys.executable, "-c", SETUP.format(grace_s=grace_s) + script],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_each_signal_ends_the_main_threads_sleep(name: str) -> None:
    script = f"""
stop.install()
threading.Timer(0.1, os.kill, (os.getpid(), signal.{name})).start()
try:
    {ENDLESS}
except KeyboardInterrupt:
    print(stop.asked.wait(10))
"""
    assert run(script) == "True"


def test_a_signal_that_was_held_back_counts_at_once() -> None:
    script = f"""
signal.signal(signal.SIGINT, signal.SIG_IGN)  # as a shell does for what runs in the background
signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
os.kill(os.getpid(), signal.SIGINT)
try:
    stop.install()
    {ENDLESS}
except KeyboardInterrupt:
    print("stopped")
"""
    assert run(script) == "stopped"


def test_a_signal_that_another_handler_took_counts_when_ours_is_back() -> None:
    script = """
stop.install()
signal.signal(signal.SIGTERM, lambda *_: print("taken"))
os.kill(os.getpid(), signal.SIGTERM)
stop.asked.wait(10)
try:
    stop.take_handlers()
except KeyboardInterrupt:
    print("stopped")
"""
    assert run(script).split() == ["taken", "stopped"]


def test_an_interrupt_that_a_library_swallows_is_repeated_after_the_grace() -> None:
    script = f"""
stop.install()
try:
    os.kill(os.getpid(), signal.SIGTERM)
    {ENDLESS}
except KeyboardInterrupt:
    print("swallowed")
try:
    {ENDLESS}
except KeyboardInterrupt:
    print("stopped")
"""
    assert run(script, grace_s=0.1).split() == ["swallowed", "stopped"]


def test_a_second_signal_does_not_wait_for_the_grace() -> None:
    script = f"""
stop.install()
for _ in range(2):
    threading.Timer(0.1, stop.interrupt).start()
    try:
        {ENDLESS}
    except KeyboardInterrupt:
        print("interrupted")
"""
    assert run(script).split() == ["interrupted", "interrupted"]


def test_after_the_end_has_begun_signals_and_alarms_are_ignored() -> None:
    script = """
stop.install()
signal.alarm(1)
stop.finish()
for number in STOP_SIGNALS:
    os.kill(os.getpid(), number)
stop.asked.wait(10)
print("alive", signal.getitimer(signal.ITIMER_REAL)[0])
"""
    assert run(script, grace_s=0.01) == "alive 0.0"
