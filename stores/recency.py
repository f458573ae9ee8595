"""Which records were put first and which were used last: what is expired, and what is evicted."""

from collections import OrderedDict
from typing import Generic, Protocol, TypeVar

from stores.rows import LIVES, LifeRow
from stores.shelf import Shelf


class Living(Protocol):
    """What has a life: it is hashed by identity, and its number is that of its row."""

    @property
    def row(self) -> int: ...


LivingT = TypeVar("LivingT", bound=Living)


class Recency(Generic[LivingT]):
    """The ages and the uses of the records of one kind. Each step takes constant time.

    One that is pinned has an age and no place among the uses: it is neither evicted nor expired.
    """

    def __init__(self, shelf: Shelf, ttl_s: int) -> None:
        self._shelf = shelf
        self._ttl_s = ttl_s
        self._by_age: OrderedDict[LivingT, float] = OrderedDict()
        self._by_use: OrderedDict[LivingT, None] = OrderedDict()

    def __len__(self) -> int:
        """How many are not pinned."""
        return len(self._by_use)

    def load(self, lives: list[tuple[LivingT, LifeRow]], now_s: float) -> None:
        """Take over the lives that are on the shelf; what was put in the future was put now."""
        for living, life in sorted(lives, key=lambda it: it[1].since_s):
            self._by_age[living] = min(life.since_s, now_s)
        for living, _ in sorted(lives, key=lambda it: it[1].used):
            self._by_use[living] = None

    def put(self, living: LivingT, since_s: float) -> None:
        """A new life begins, the youngest of all."""
        self._by_age[living] = since_s
        self._by_age.move_to_end(living)
        self._shelf.put(LIVES, LifeRow(living.row, since_s, self._shelf.next_number()))

    def use(self, living: LivingT) -> None:
        """Make it the latest used, and no longer pinned."""
        self._by_use[living] = None
        self._by_use.move_to_end(living)
        number = self._shelf.next_number()
        self._shelf.put_use(LifeRow(living.row, self._by_age[living], number))

    def pin(self, living: LivingT) -> None:
        self._by_use.pop(living, None)

    def drop(self, living: LivingT) -> None:
        del self._by_age[living]
        self._by_use.pop(living, None)
        self._shelf.drop(LIVES, living.row)

    def least_used(self) -> LivingT:
        """The one whose last use is the longest ago; there is one."""
        return next(iter(self._by_use))

    def is_over(self, living: LivingT, now_s: float) -> bool:
        """Whether its time is over, pinned or not."""
        return self._ttl_s > 0 and now_s - self._by_age[living] >= self._ttl_s

    def list_expired(self, now_s: float) -> list[LivingT]:
        """Those whose time is over, but for the pinned ones, which it has to pass by."""
        expired = []
        for living in self._by_age:
            if not self.is_over(living, now_s):
                break
            if living in self._by_use:
                expired.append(living)
        return expired
