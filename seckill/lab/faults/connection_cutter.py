"""Shell: a TCP relay in front of Postgres that can cut connections at the worst moment, during COMMIT."""

from __future__ import annotations

import socket
import threading

COMMIT = b"COMMIT"


class ConnectionCutter:
    """Relays everything except the next COMMITs that `cut` asks for.

    Of these, every other one reaches the server but its response is lost, and the ones in between never reach the
    server. The client cannot tell the two apart: either way it does not know whether its transaction was committed.
    """

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._remaining = 0
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.responses_lost = 0
        self.commits_lost = 0
        threading.Thread(target=self._accept_forever, daemon=True).start()

    def cut(self, commits: int) -> None:
        with self._lock:
            self._remaining += commits

    @property
    def is_done(self) -> bool:
        return self._remaining == 0

    def close(self) -> None:
        self._listener.close()

    def _accept_forever(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return  # the listener was closed
            try:
                server = socket.create_connection(self._target, timeout=5)
            except OSError:
                client.close()
                continue
            server.settimeout(None)
            threading.Thread(target=self._relay, args=(client, server, True), daemon=True).start()
            threading.Thread(target=self._relay, args=(server, client, False), daemon=True).start()

    def _relay(self, source: socket.socket, target: socket.socket, from_client: bool) -> None:
        try:
            while content := source.recv(65536):
                if from_client and COMMIT in content and self._claim_cut():
                    if self._lose_response(content, source, target):
                        return  # the other thread closes both when the server has committed
                    break
                target.sendall(content)
        except OSError:
            pass  # one side has closed, so close the other as well
        for end in (source, target):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            end.close()

    def _claim_cut(self) -> bool:
        with self._lock:
            if not self._remaining:
                return False
            self._remaining -= 1
            return True

    def _lose_response(self, content: bytes, client: socket.socket, server: socket.socket) -> bool:
        """True: the COMMIT reaches the server and its response is lost. False: the COMMIT itself is lost."""
        with self._lock:
            if self.responses_lost > self.commits_lost:
                self.commits_lost += 1
                return False
            self.responses_lost += 1
        client.shutdown(socket.SHUT_RDWR)
        server.sendall(content)
        server.shutdown(socket.SHUT_WR)  # the server reads to the end, commits, and cannot send its response
        return True
