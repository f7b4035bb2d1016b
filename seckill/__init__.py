"""seckill — the project itself: what belongs to no single room: settings, topics, the loop, the stack, the books, the
demo, the command line.
"""
