"""What a test leaves running."""

import asyncio
from typing import Any


def tasks_left() -> set["asyncio.Task[Any]"]:
    """The tasks of this loop that have not ended, without those that run the test itself.

    Nor those that close a generator that nobody has, which Python begins whenever it likes.
    """
    return {
        task
        for task in asyncio.all_tasks()
        if "TestRunner" not in repr(task.get_coro())
        and type(task.get_coro()).__name__ != "async_generator_athrow"
    }
