"""One connection to the server, carrying one request at a time: the only place where bytes are read and stamped."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, cast

import httptools

from vtop import faults
from vtop.load.http.client_limits import CLIENT_LIMIT, limit_of
from vtop.load.http.exchange import Exchange
from vtop.recording.vocabulary import ErrorClass

HEAD_LIMIT: Final = 2**20  # bytes before the headers are complete
LINGER_S: Final = 1.0  # how long the end of an answer may come after its [DONE]
STALE_S: Final = 1.0  # a kept connection cut this soon after the request was sent had been closed before it
DRAIN_S: Final = 0.001  # how often TLS is asked whether all is sent: it does not tell by itself

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Patience:
    """How long each thing may take, in seconds; None: for ever. stall_s: no byte; total_s: from the slot to the end."""

    connect_s: float = 10.0
    stall_s: float | None = 300.0
    total_s: float | None = None


class LoadConnection(asyncio.BufferedProtocol):
    """idle and gone are called when it is free for the next request, and when it can never be used again.

    What is read is stamped and copied at once; `later` is given what understands it (see backlog.py).
    """

    def __init__(
        self,
        clock: Clock,
        patience: Patience,
        view: memoryview,
        *,
        idle: Callable[[LoadConnection], None],
        gone: Callable[[LoadConnection], None],
        later: Callable[[Callable[[], None]], None],
    ) -> None:
        self._clock = clock
        self._patience = patience
        self._view = view  # all connections read into the same buffer: each read is copied before the next
        self._idle = idle
        self._gone = gone
        self._later = later
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None  # that is written to
        self._plain: asyncio.Transport | None = None  # below TLS
        self._exchange: Exchange | None = None
        self._over: asyncio.Future[bool] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._unread: list[tuple[float, bytes]] = []  # reads that are still to be understood, with their stamps
        self._read_s = 0.0  # the stamp of the last read
        self._at_s = 0.0  # the stamp of the read being understood
        self._tell_first = False
        self._aborted = False
        self._reset()

    def _reset(self) -> None:
        """Forget the message before."""
        self._silent = True  # nothing of an answer has come
        self._headed = False
        self._complete = False
        self._measured = False  # its length is known beforehand
        self._keep = False
        self._type = b""
        self._why = ""
        self._head_bytes = 0
        self._too_much: str | None = None  # why the answer is not read further

    # --- the request

    async def converse(self, exchange: Exchange) -> bool:
        """Send the request and see its answer to the end; False when the connection turned out to be stale.

        What the world does is in the exchange afterwards; only cancellation raises.
        """
        assert self._transport is not None
        self._reset()
        self._exchange = exchange
        self._tell_first = exchange.seen is not None
        self._over = self._loop.create_future()
        self._read_s = self._at_s = self._clock()
        if not self.open:  # it ended between being opened and being used: nothing else would ever tell
            self._break("cancelled_at_end" if self._aborted else "reset", self._cut())
            return await self._over
        self._transport.write(exchange.wire)
        self._look_whether_sent(self._read_s)  # after the call the server may have had this core for a while
        self._watch()
        try:
            return await self._over
        except asyncio.CancelledError:
            self.abort("cancelled_at_end", "")
            raise

    def abort(self, broke: ErrorClass = "cancelled_at_end", why: str = "") -> None:
        """Close the socket at once; a request under way ends so, with all that was read of its answer."""
        self._catch_up()
        self._aborted = True
        self._break(broke, why)
        if self._transport is not None:
            self._transport.abort()
        self._gone(self)

    def _look_whether_sent(self, at: float | None = None) -> None:
        exchange = self._exchange
        if exchange is None or exchange.sent_s is not None or self._transport is None:
            return
        unsent = self._transport.get_write_buffer_size()
        if self._plain is not None:
            unsent += self._plain.get_write_buffer_size()
        if not unsent:
            exchange.sent_s = self._clock() if at is None else at
            if exchange.seen is not None:
                exchange.seen(exchange)
        elif self._plain is not None:
            self._loop.call_later(DRAIN_S, self._look_whether_sent)

    def pause_writing(self) -> None:
        """The kernel does not take all of the request; `resume_writing` comes when it has."""

    def resume_writing(self) -> None:
        self._look_whether_sent()

    def _watch(self) -> None:
        """End the request when its time is up; look again when it can be up the next time."""
        self._catch_up()
        exchange = self._exchange
        if exchange is None:
            return
        now = self._clock()
        patience = self._patience
        stall_s = LINGER_S if exchange.reading.done else patience.stall_s
        left_s: float | None = None
        if stall_s is not None:
            left_s = self._read_s + stall_s - now
            if left_s <= 0:
                self.abort("stalled", f"no byte for {now - self._read_s:.1f} s, {self._so_far()}")
                return
        if patience.total_s is not None:
            total_left_s = (exchange.admitted_s or 0.0) + patience.total_s - now
            if total_left_s <= 0:
                self.abort("timeout", f"not finished in {patience.total_s:g} s, {self._so_far()}")
                return
            left_s = total_left_s if left_s is None else min(left_s, total_left_s)
        if left_s is not None:
            self._timer = self._loop.call_later(left_s, self._watch)

    # --- the answer

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._view

    def buffer_updated(self, nbytes: int) -> None:
        self._read_s = at_s = self._clock()
        self._unread.append((at_s, bytes(self._view[:nbytes])))
        if self._exchange is None:
            self._catch_up()
        elif len(self._unread) == 1:
            self._later(self._catch_up)

    def _catch_up(self) -> None:
        """Understand what was read so far."""
        unread, self._unread = self._unread, []
        try:
            for self._at_s, data in unread:
                self._understand(data)
        except Exception as error:  # our own fault: it is told, and the request ends all the same
            self._failed(error)
            self.abort()

    def _understand(self, data: bytes) -> None:
        exchange = self._exchange
        if exchange is None:  # an answer to nothing: "408 Request Timeout" before it closes
            self.abort()
            return
        self._silent = False
        if not self._headed:
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_LIMIT:
                self.abort("truncated", f"headers of more than {HEAD_LIMIT >> 10:,} KiB are not read")
                return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserCallbackError as error:
            raise error.__context__ or error from None
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            if not self._complete:
                self.abort("reset", "the answer is no HTTP (is the server's URL right, and http or https?)")
                return
            self._keep = False
        if self._tell_first and exchange.reading.first_s is not None and exchange.seen is not None:
            self._tell_first = False
            exchange.seen(exchange)
        if self._too_much is not None and not self._complete:
            self.abort("truncated", self._too_much)
        elif self._complete:
            self._end()
        elif exchange.reading.done:  # from now on there is less patience
            self._stop_timer()
            self._watch()

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        if name == b"content-type":
            self._type = value.lower()
        elif name in (b"content-length", b"transfer-encoding"):
            self._measured = True
        elif name == b"content-encoding" and value.lower() != b"identity":
            self._why = f"the answer is compressed ({value.decode('latin-1')}), which was not asked for"
        elif name == b"location":
            where = value.decode("latin-1").partition("?")[0]
            self._why = f"it redirects to {where.rpartition('@')[2]}, which is not followed"

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if self._complete:  # a second answer to one request
            self._keep = False
        elif status >= 200 and self._exchange is not None:
            self._headed = True
            self._look_whether_sent(self._at_s)
            self._keep = self._parser.should_keep_alive()
            if not 300 <= status < 400 and self._why.startswith("it redirects"):
                self._why = ""
            self._exchange.begin(self._at_s, status, self._type)

    def on_body(self, body: bytes) -> None:
        if self._exchange is not None and not self._complete:
            self._too_much = self._too_much or self._exchange.take(body, self._at_s)

    def on_message_complete(self) -> None:
        if self._headed:
            self._complete = True
        else:
            self._reset()  # 100 Continue: the answer itself is still to come
            self._silent = False

    def eof_received(self) -> None:
        self._catch_up()
        if self._exchange is None:
            self._gone(self)
        elif self._headed and not self._measured:  # the end of the connection is the end of the answer
            self._keep = False
            self._end()
        elif self._headed:
            self._break("truncated", f"the server closed the connection, {self._so_far()}")
        else:
            self._break("reset", self._cut())

    def connection_lost(self, exc: Exception | None) -> None:
        self._catch_up()
        limit = limit_of(exc)
        self._break(CLIENT_LIMIT if limit else "reset", limit or self._cut())
        self._gone(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=0)  # tell when the last byte is gone, not when few are left

    def secured(self, transport: asyncio.Transport) -> None:
        """TLS was started on the connection; `transport` is its upper end."""
        self._plain, self._transport = self._transport, transport

    @property
    def open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    # --- the end

    def _end(self) -> None:
        """The answer came to its end."""
        why = self._why
        if not why and self._type and b"event-stream" not in self._type and b"json" not in self._type:
            why = f"the answer is {self._type.decode('latin-1')}, not an event stream"
        over = self._close_exchange(None, why)
        if self._keep and self.open:
            self._idle(self)
        else:
            if self._transport is not None:
                self._transport.abort()
            self._gone(self)
        if over is not None and not over.done():
            over.set_result(True)

    def _break(self, broke: ErrorClass, why: str) -> None:
        """The conversation ended before the answer did."""
        exchange = self._exchange
        if exchange is None:
            return
        stale = (
            broke == "reset"
            and self._silent
            and exchange.kept
            and (exchange.sent_s is None or self._clock() - exchange.sent_s <= STALE_S)
        )
        if stale:
            self._stop_timer()
            self._exchange = None
            over = self._over
        else:
            over = self._close_exchange(broke, why)
        if over is not None and not over.done():
            over.set_result(not stale)

    def _close_exchange(self, broke: ErrorClass | None, why: str) -> asyncio.Future[bool] | None:
        self._stop_timer()
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            try:
                exchange.finish(self._at_s if broke is None else self._clock(), self._at_s, broke, why)
            except Exception as error:
                exchange.fail(self._clock(), faults.put_down(error, "understanding an answer"))
        return self._over

    def _failed(self, error: Exception) -> None:
        """End the request under way for a fault of vtop's own."""
        exchange = self._exchange
        if exchange is not None and exchange.end_s is None:
            exchange.fail(self._clock(), faults.put_down(error, "understanding an answer"))

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _cut(self) -> str:
        if self._exchange is None or self._exchange.sent_s is None:
            return "the connection was cut while the request was being sent"
        silent_s = self._clock() - (self._exchange.sent_s if self._silent else self._read_s)
        return f"the connection was cut after {silent_s:.1f} s of silence, {self._so_far()}"

    def _so_far(self) -> str:
        if self._silent:
            return "nothing of an answer had come"
        chunks = self._exchange.reading.chunks if self._exchange is not None else 0
        return f"{chunks} event{'s' * (chunks != 1)} with tokens had come" if chunks else "no token had come"
