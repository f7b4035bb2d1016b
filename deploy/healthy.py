"""Health check of a container: `python -I -S deploy/healthy.py ADDRESS`; exit code 0, or 1 with the reason.

    http://HOST:PORT/PATH      must answer 200
    kafka://HOST:PORT          must answer ApiVersions, the first request of every Kafka client

It runs every few seconds in every container, so it imports as little as possible.
"""

import socket
import sys

TIMEOUT_S = 3.0
RESPONSE_BYTES_MAX = 1 << 20
# ApiVersions 0, correlation id 7, no client id.
HELLO = bytes.fromhex("0000000a 0012 0000 00000007 ffff")


def main(what: str) -> str:
    """The reason why the server is unhealthy, or an empty text."""
    kind, _, rest = what.partition(":")
    address, _, path = rest.removeprefix("//").partition("/")
    host, _, port = address.partition(":")
    if kind not in ("http", "kafka") or not port.isdecimal():
        return "http://HOST:PORT/PATH or kafka://HOST:PORT"
    try:
        with socket.create_connection((host, int(port)), timeout=TIMEOUT_S) as connection:
            if kind == "kafka":
                connection.sendall(HELLO)
                answer = _read(connection, 8)
                return "" if answer[4:] == HELLO[8:12] else f"{address} does not speak Kafka's protocol"
            connection.sendall(f"GET /{path} HTTP/1.0\r\nHost: {host}\r\n\r\n".encode())
            # Read the whole response, because a server logs an error if its client hangs up in the middle.
            status = _read(connection, RESPONSE_BYTES_MAX)[9:12]
            return "" if status == b"200" else f"{what}: {status.decode('latin-1') or 'no answer'}"
    except OSError as fault:
        return f"{address}: {fault}"


def _read(connection: socket.socket, size_max: int) -> bytes:
    """Up to this many bytes; fewer if the server closes the connection."""
    content = b""
    while len(content) < size_max and (more := connection.recv(size_max - len(content))):
        content += more
    return content


if __name__ == "__main__":
    wrong = main(sys.argv[1]) if len(sys.argv) == 2 else "usage: healthy.py http://HOST:PORT/PATH or kafka://HOST:PORT"
    if wrong:
        print(wrong, file=sys.stderr)
        sys.exit(1)
