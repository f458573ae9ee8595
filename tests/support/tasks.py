"""What a test leaves running."""

import asyncio
from typing import Any


def tasks_left() -> set["asyncio.Task[Any]"]:
    """The tasks of this loop that have not ended, without those that run the test itself."""
    return {task for task in asyncio.all_tasks() if "TestRunner" not in repr(task.get_coro())}
