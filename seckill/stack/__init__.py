"""stack — starts on one machine what the project needs: for now the broker.

In:    a folder, settings.
Out:   processes that answer, and end when they are told to.
From:  cli, demo, tests.    Next: the programs themselves.
"""
