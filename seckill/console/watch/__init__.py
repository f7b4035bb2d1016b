"""What the report service notices from outside: processes that fell silent and servers that stopped answering.

In:    a datagram a second from each process that is told to send them, and a probe a second of each server.
Out:   rows of `console_silence`, which the report shows as observed disturbances.
Used by: `seckill report serve`.    Uses: seckill.monitoring.

`sign_log` decides, the other modules listen, probe and write.
"""
