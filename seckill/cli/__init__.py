"""The command line: one module for each group of commands. Arguments are parsed here and nowhere else in seckill."""
