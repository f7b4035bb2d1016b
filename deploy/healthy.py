"""Whether what runs in a container does its work: `python -I -S deploy/healthy.py WHAT`; exit 0 if so, else 1 and why.

    http://HOST:PORT/PATH      it answers 200
    kafka://HOST:PORT          it answers ApiVersions, the first thing that any client says

Asked every few seconds in every container, so it imports next to nothing.
"""

import socket
import sys

PATIENCE_S = 3.0
MOST = 1 << 20
# ApiVersions 0, correlation id 7, no client id.
HELLO = bytes.fromhex("0000000a 0012 0000 00000007 ffff")


def main(what: str) -> str:
    """What is wrong; empty: nothing."""
    kind, _, rest = what.partition(":")
    address, _, path = rest.removeprefix("//").partition("/")
    host, _, port = address.partition(":")
    if kind not in ("http", "kafka") or not port.isdecimal():
        return "http://HOST:PORT/PATH or kafka://HOST:PORT"
    try:
        with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as connection:
            if kind == "kafka":
                connection.sendall(HELLO)
                answer = _read(connection, 8)
                return "" if answer[4:] == HELLO[8:12] else f"{address} does not speak Kafka's protocol"
            connection.sendall(f"GET /{path} HTTP/1.0\r\nHost: {host}\r\n\r\n".encode())
            status = _read(connection, MOST)[9:12]  # all of it: to hang up in the middle would be an error there
            return "" if status == b"200" else f"{what}: {status.decode('latin-1') or 'no answer'}"
    except OSError as fault:
        return f"{address}: {fault}"


def _read(connection: socket.socket, most: int) -> bytes:
    """Up to so many bytes: fewer if it hangs up."""
    read = b""
    while len(read) < most and (more := connection.recv(most - len(read))):
        read += more
    return read


if __name__ == "__main__":
    wrong = main(sys.argv[1]) if len(sys.argv) == 2 else "one word: what to look at"
    if wrong:
        print(wrong, file=sys.stderr)
        sys.exit(1)
