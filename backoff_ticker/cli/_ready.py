"""A wait for a descriptor in the event loop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..cancellation import CancellationToken


async def ready(
    watch: Callable[[int, Callable[[], None]], object],
    unwatch: Callable[[int], object],
    descriptor: int,
    *also: CancellationToken,
) -> None:
    """Wait until a descriptor is ready, or one of the tokens is cancelled."""
    news = asyncio.get_running_loop().create_future()

    def wake() -> None:
        if not news.done():
            news.set_result(None)

    watch(descriptor, wake)
    handles = [token.on_cancel(wake) for token in also]
    try:
        await news
    finally:
        unwatch(descriptor)
        for handle in handles:
            handle.remove()
