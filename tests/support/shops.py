"""Writers at one shop, which stays where it is."""

from lockgate.demo.writers import Writers

__all__ = ["ShopWriters"]


class ShopWriters(Writers):
    """They write at one database, all the time."""

    def __init__(self, url: str) -> None:
        super().__init__({"here": url}, "public.orders", "here", count=2)

    @property
    def transactions(self) -> int:
        """How many were acknowledged."""
        return len(self.guests)
