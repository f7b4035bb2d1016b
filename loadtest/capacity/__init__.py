"""capacity — how many processes, servers and machines a sale needs, from what a purchase was measured to cost.

In:    a wish (buyers, seconds, units, longest wait); measured costs (docs/generated/capacity.json).
Out:   processes, partitions, brokers, rates of Postgres and Redis, memory, and the part that limits the sale.

`costs` holds what was measured, `measurement` measures it on a stack of this machine, `simulation` replays a rush in
simulated time, `plan` sizes every part, `check` compares the predictions with measured sales, `picture` draws.
"""
