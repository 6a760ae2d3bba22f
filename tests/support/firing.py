"""A trigger that waits as in Airflow's triggerer, and fires."""

import asyncio
import time

POLL = 60.0  # so long that only a notification can be what woke it


async def fire(trigger, meanwhile=lambda: None, after=0.5):
    """The trigger's events and the seconds from `meanwhile`, which runs in a thread once the trigger waits."""

    async def events():
        return [event.payload async for event in trigger.run()]

    waiting = asyncio.create_task(events())
    await asyncio.sleep(after)
    started = time.monotonic()
    await asyncio.to_thread(meanwhile)
    return await asyncio.wait_for(waiting, 30), time.monotonic() - started
