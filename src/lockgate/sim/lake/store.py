"""Every home's metastore, as far as a keeper sees it: one record of what the home wants."""

from lockgate.model.lake import HomeId, WishRecord, accepted, begun

__all__ = ["WishStore"]


class WishStore:
    """The records, and all that ever were durable."""

    def __init__(self) -> None:
        self._records: dict[HomeId, WishRecord] = {}
        self._durable: set[tuple[HomeId, WishRecord]] = set()

    def begin(self, home: HomeId) -> WishRecord:
        """Make the home's record a new keeper's own."""
        return self._put(home, begun(self.held(home)))

    def held(self, home: HomeId) -> WishRecord:
        return self._records.get(home, WishRecord())

    def record(self, home: HomeId, record: WishRecord) -> bool:
        """Have it durable; False when a later keeper was there."""
        verdict = accepted(self.held(home), record)
        if verdict:
            self._put(home, record)
        return verdict is not False

    def was_durable(self, home: HomeId, record: WishRecord) -> bool:
        return (home, record) in self._durable

    def _put(self, home: HomeId, record: WishRecord) -> WishRecord:
        self._records[home] = record
        self._durable.add((home, record))
        return record
