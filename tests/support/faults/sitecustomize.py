"""Loaded by every Python process of a test's server: it kills an engine's thread when told to.

A file in the folder ANTIPHON_TEST_ORDERS is the order, and its name the Serve application's.
"""

import ctypes
import os
import threading
import time
from pathlib import Path


def obey(folder: Path) -> None:
    """Wait for an order that concerns this process, and raise SystemExit in its engine's thread."""
    while True:
        time.sleep(0.2)
        engines = [thread for thread in threading.enumerate() if thread.name == "engine"]
        title = Path("/proc/self/cmdline").read_text() if engines else ""
        for order in folder.iterdir() if engines else ():
            if f"ServeReplica:{order.name}:" in title:
                order.unlink()
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    ctypes.c_ulong(engines[0].ident or 0), ctypes.py_object(SystemExit)
                )


if "ANTIPHON_TEST_ORDERS" in os.environ:
    orders = Path(os.environ["ANTIPHON_TEST_ORDERS"])
    threading.Thread(target=obey, args=(orders,), name="faults", daemon=True).start()
