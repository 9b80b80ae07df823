"""An object store on this machine: enough of S3 to list a bucket and to read its objects."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape


@contextmanager
def bucket(objects: dict[str, bytes], name: str = "shop") -> Iterator[str]:
    """The options by which pyarrow finds a bucket with these objects."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def do_HEAD(self) -> None:
            self._answer(body=False)

        def do_GET(self) -> None:
            self._answer(body=True)

        def _answer(self, body: bool) -> None:
            asked = urlsplit(self.path)
            place, _, key = unquote(asked.path).lstrip("/").partition("/")
            query = {word: found[0] for word, found in parse_qs(asked.query, keep_blank_values=True).items()}
            if place != name or (key and key not in objects):
                self._send(404, b"<Error><Code>NoSuchKey</Code></Error>", body)
            elif key:
                whole = objects[key]
                if found := re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", "")):
                    first, last = int(found[1]), min(int(found[2] or len(whole) - 1), len(whole) - 1)
                    span = {"Content-Range": f"bytes {first}-{last}/{len(whole)}"}
                    self._send(206, whole[first : last + 1], body, span)
                else:
                    self._send(200, whole, body)
            else:
                self._send(200, listing(query.get("prefix", ""), query.get("delimiter", "")).encode(), body)

        def _send(self, code: int, content: bytes, body: bool, more: dict[str, str] | None = None) -> None:
            self.send_response(code)
            headers = {"Content-Length": str(len(content)), "Last-Modified": "Fri, 01 Jan 2021 00:00:00 GMT"}
            for word, value in {**headers, "ETag": '"1"', **(more or {})}.items():
                self.send_header(word, value)
            self.end_headers()
            if body:
                self.wfile.write(content)

    def listing(prefix: str, delimiter: str) -> str:
        keys = [key for key in sorted(objects) if key.startswith(prefix)]
        folders = {
            key[: key.index(delimiter, len(prefix)) + 1]
            for key in keys
            if delimiter and delimiter in key[len(prefix) :]
        }
        own = [key for key in keys if not delimiter or delimiter not in key[len(prefix) :]]
        contents = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{len(objects[key])}</Size>"
            "<LastModified>2021-01-01T00:00:00.000Z</LastModified></Contents>"
            for key in own
        )
        shared = "".join(f"<CommonPrefixes><Prefix>{escape(one)}</Prefix></CommonPrefixes>" for one in sorted(folders))
        return (
            f"<ListBucketResult><Name>{name}</Name><Prefix>{escape(prefix)}</Prefix><IsTruncated>false</IsTruncated>"
            f"<KeyCount>{len(own) + len(folders)}</KeyCount>{contents}{shared}</ListBucketResult>"
        )

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"endpoint_override=127.0.0.1:{server.server_port}&scheme=http&region=us-east-1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
