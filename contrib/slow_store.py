#!/usr/bin/env python3
"""A store that is far away: passes HTTP requests on to a store on this machine, and keeps back each answer to a PUT for a while.

  slow_store.py --store 7070 --listen 7071 --put-ms 500 --jitter-ms 0

What is kept back of one answer keeps back no other. With --jitter-ms J each delay is drawn from put-ms to put-ms + J, and one answer of
twenty takes three times as long. Listens on 127.0.0.1. Used by measure_archive.py; ends when its standard input does."""
import argparse, asyncio, random, sys

HEAD_BYTES_MAX = 1 << 20
PIECE_BYTES = 1 << 18


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", type=int, required=True, help="port of the store")
    parser.add_argument("--listen", type=int, required=True)
    parser.add_argument("--put-ms", type=float, default=0)
    parser.add_argument("--jitter-ms", type=float, default=0)
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def header(head, name):
    for line in head.split(b"\r\n")[1:]:
        key, _, value = line.partition(b":")
        if key.strip().lower() == name:
            return value.strip()
    return None


async def pass_body(head, source, target, has_body):
    """Passes on what belongs to a message behind its head. Whether the connection is good for another one."""
    if not has_body:
        return True
    if (header(head, b"transfer-encoding") or b"").lower() == b"chunked":
        while True:
            line = await source.readuntil(b"\r\n")
            length = int(line.split(b";")[0], 16)
            target.write(line + await source.readexactly(length + 2))
            await target.drain()
            if length == 0:
                return True
    length = header(head, b"content-length")
    left = int(length) if length is not None else None
    while left is None or left > 0:
        piece = await source.read(PIECE_BYTES if left is None else min(left, PIECE_BYTES))
        if not piece:
            return False
        target.write(piece)
        await target.drain()
        left = None if left is None else left - len(piece)
    return True


class SlowStore:
    def __init__(self, store, put_ms, jitter_ms, seed=1):
        self.port, self.put_ms, self.jitter_ms, self.random = store, put_ms, jitter_ms, random.Random(seed)

    def delay(self, method):
        if method != b"PUT":
            return 0
        milliseconds = self.put_ms + self.random.random() * self.jitter_ms
        if self.jitter_ms and self.random.randrange(20) == 0:
            milliseconds *= 3
        return milliseconds / 1000

    async def serve(self, client, to_client):
        store = to_store = None
        try:
            while True:
                request = await client.readuntil(b"\r\n\r\n")
                method = request.split(b" ", 1)[0]
                if to_store is None or to_store.is_closing():
                    store, to_store = await asyncio.open_connection("127.0.0.1", self.port, limit=HEAD_BYTES_MAX)
                to_store.write(request)
                # Whoever asks whether to go on waits for an answer first.
                if (header(request, b"expect") or b"").lower() == b"100-continue":
                    to_client.write(await store.readuntil(b"\r\n\r\n"))
                has_body = header(request, b"content-length") is not None or header(request, b"transfer-encoding") is not None
                await pass_body(request, client, to_store, has_body)
                await to_store.drain()
                answer = await store.readuntil(b"\r\n\r\n")
                await asyncio.sleep(self.delay(method))
                to_client.write(answer)
                status = answer.split(b" ", 2)[1]
                goes_on = await pass_body(answer, store, to_client, method != b"HEAD" and status not in (b"204", b"304"))
                await to_client.drain()
                if not goes_on or (header(answer, b"connection") or b"").lower() == b"close":
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            for writer in (to_client, to_store):
                if writer is not None:
                    writer.close()


async def listen(slow, port, until):
    """Serves until `until` returns."""
    async with await asyncio.start_server(slow.serve, "127.0.0.1", port, limit=HEAD_BYTES_MAX, backlog=256):
        await asyncio.get_running_loop().run_in_executor(None, until)


def main():
    given = arguments()
    slow = SlowStore(given.store, given.put_ms, given.jitter_ms, given.seed)
    asyncio.run(listen(slow, given.listen, sys.stdin.read))


if __name__ == "__main__":
    main()
