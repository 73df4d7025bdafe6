"""The ledger of trace_site.lib.llm over Postgres: replies by content key, one row per exchange.

Rows are written by one thread of its own connection, so that the event loop never waits for the database.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from django.db import connection, transaction
from django.db.models.functions import Now

from synthesis.models import ModelCall, ModelReply
from trace_site.jobs import Job
from trace_site.lib.llm import Exchange, Reply


class DatabaseLedger:
    def __init__(self, job: Job | None) -> None:
        self.job = job
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ledger")

    async def kept(self, key: str) -> dict[str, Any] | None:
        rows = ModelReply.objects.filter(key=key).values_list("response", flat=True)
        kept: dict[str, Any] | None = await self._run(rows.first)
        return kept

    async def sent(self, exchange: Exchange) -> None:
        await self._run(lambda: self._open(exchange))

    async def ended(self, exchange: Exchange, reply: Reply | None) -> None:
        await self._run(lambda: self._close(exchange, reply))

    def close(self) -> None:
        self._thread.submit(connection.close)
        self._thread.shutdown()

    async def _run(self, work: Callable[[], Any]) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _open(self, exchange: Exchange) -> None:
        ModelCall.objects.create(
            uid=exchange.uid,
            key=exchange.key,
            purpose=exchange.purpose[:20],
            endpoint=exchange.endpoint[:200],
            model=exchange.model[:200],
            prompt_hash=exchange.prompt_hash,
            job=self.job,
        )

    def _close(self, exchange: Exchange, reply: Reply | None) -> None:
        with transaction.atomic():
            ModelCall.objects.filter(uid=exchange.uid).update(
                state=ModelCall.State.ANSWERED if reply else ModelCall.State.FAILED,
                error_code=exchange.error_code,
                prompt_tokens=exchange.prompt_tokens,
                completion_tokens=exchange.completion_tokens,
                cost=exchange.cost,
                seconds=exchange.seconds,
                ended_at=Now(),
            )
            if reply is not None:
                ModelReply.objects.bulk_create(
                    [
                        ModelReply(
                            key=exchange.key,
                            purpose=exchange.purpose[:20],
                            model=exchange.model[:200],
                            prompt_hash=exchange.prompt_hash,
                            response=reply.data,
                            prompt_tokens=reply.prompt_tokens,
                            completion_tokens=reply.completion_tokens,
                        )
                    ],
                    ignore_conflicts=True,
                )
