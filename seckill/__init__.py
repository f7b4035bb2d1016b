"""seckill — the project itself: what belongs to no single room.

For now the command line and the demonstration of the broker; the flash sale moves in with its services.
"""
