"""Use cases: one method a use case, asyncio only, clock and id maker as arguments."""
