"""One HTTP exchange: a request's bytes out, the bytes of a 200 back, or an LlmError."""

import asyncio
from uuid import UUID

import httpx2 as httpx
import openai

from trace_site.lib.llm.answers import status_error
from trace_site.lib.llm.exchange import Endpoint, LlmError
from trace_site.lib.llm.transport import Transport

SHORTEST_KEY = 8  # characters; a shorter one may stand in an answer by chance


class Wire:
    def __init__(self, endpoint: Endpoint) -> None:
        self._key = endpoint.api_key
        http = httpx.AsyncClient(
            transport=Transport(endpoint.concurrency), timeout=None, follow_redirects=False, trust_env=False
        )
        # our own loop retries: it knows the total deadline and every form of Retry-After
        self._openai = openai.AsyncOpenAI(
            base_url=endpoint.base_url, api_key=endpoint.api_key or "none", max_retries=0, http_client=http
        )

    async def close(self) -> None:
        await self._openai.close()

    async def post(self, body: bytes, uid: UUID, seconds: float) -> bytes:
        """The body of the answer with status 200, within so many seconds."""
        headers = {"Content-Type": "application/json", "X-Client-Request-Id": str(uid)}
        try:
            async with asyncio.timeout(seconds):
                response = await self._openai.post(
                    "/chat/completions", cast_to=httpx.Response, content=body, options={"headers": headers}
                )
        except (TimeoutError, openai.APITimeoutError):
            raise LlmError("did not answer in time", "llm_timeout", again=True, refused=True) from None
        except openai.APIStatusError as error:
            raise status_error(error.status_code, error.response.headers, error.response.text) from None
        except openai.APIConnectionError as error:
            raise _broken(error.__cause__) from None
        if len(self._key) >= SHORTEST_KEY and self._key.encode() in response.content:
            raise LlmError("repeated the key in its answer", "llm_key_repeated")
        return response.content


def _broken(cause: BaseException | None) -> LlmError:
    """What a connection that failed means."""
    if isinstance(cause, LlmError):
        return cause
    if isinstance(cause, httpx.ConnectError | httpx.UnsupportedProtocol):
        hint = "Check LLM_BASE_URL and that the server is up, or use --writer offline."
        return LlmError("cannot be reached", "llm_unreachable", hint=hint, again=True, free=True)
    return LlmError("broke off its answer", "llm_broken", again=True)
