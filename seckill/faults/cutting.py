"""Shell: a wire that can be cut: a relay before Postgres which loses the connection at the worst moment, a COMMIT."""

from __future__ import annotations

import socket
import threading

COMMIT = b"COMMIT"


class Cutter:
    """Passes everything on, except for the COMMITs it was told to cut.

    Every other one of those reaches the server and its answer is lost; the ones in between are lost themselves. The
    client sees the same both times: nobody tells it whether it has committed.
    """

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._left = 0
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.answers_lost = 0
        self.commits_lost = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self, commits: int) -> None:
        with self._lock:
            self._left += commits

    @property
    def is_done(self) -> bool:
        return self._left == 0

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return  # closed
            try:
                server = socket.create_connection(self._target, timeout=5)
            except OSError:
                client.close()
                continue
            server.settimeout(None)
            threading.Thread(target=self._pump, args=(client, server, True), daemon=True).start()
            threading.Thread(target=self._pump, args=(server, client, False), daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket, from_client: bool) -> None:
        try:
            while content := source.recv(65536):
                if from_client and COMMIT in content and self._is_cut():
                    if self._lose_answer(content, source, target):
                        return  # the other thread ends it, when the server has done it
                    break
                target.sendall(content)
        except OSError:
            pass  # one side is gone, so is the other
        for end in (source, target):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            end.close()

    def _is_cut(self) -> bool:
        with self._lock:
            if not self._left:
                return False
            self._left -= 1
            return True

    def _lose_answer(self, content: bytes, client: socket.socket, server: socket.socket) -> bool:
        """True: it has reached the server, and nobody will hear the answer. False: it is lost itself."""
        with self._lock:
            if self.answers_lost > self.commits_lost:
                self.commits_lost += 1
                return False
            self.answers_lost += 1
        client.shutdown(socket.SHUT_RDWR)
        server.sendall(content)
        server.shutdown(socket.SHUT_WR)  # it reads to the end, commits, and finds nobody to tell
        return True
