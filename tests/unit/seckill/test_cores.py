"""A process stays on one core, with the threads it has and those it will have."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from seckill import garbage

WHERE = """
import os, threading
from seckill.cores import stay_on_one
here, done = [], threading.Event()
def where():
    here.append(tuple(os.sched_getaffinity(0)))
def early():
    done.wait()
    where()
begun_before = threading.Thread(target=early)
begun_before.start()
{call}
begun_after = threading.Thread(target=where)
begun_after.start()
begun_after.join()
done.set()
begun_before.join()
where()
print(sorted(set(here)))
"""


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system holds nobody to a core")
@pytest.mark.parametrize("call", ["stay_on_one()", ""])
def test_threads_of_before_and_after_stay_on_one_core(call: str) -> None:
    done = subprocess.run([sys.executable, "-c", WHERE.format(call=call)], capture_output=True, text=True, check=True)
    [cores] = eval(done.stdout)
    assert len(cores) == (1 if call else len(os.sched_getaffinity(0)))


def test_what_the_start_has_made_is_looked_at_no_more() -> None:
    look = "import gc; from seckill.garbage import settle_down; settle_down(); "
    look += "print(gc.get_freeze_count(), *gc.get_threshold())"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    frozen, most_new, *_ = map(int, done.stdout.split())
    assert frozen > 1000
    assert most_new == garbage.MOST_NEW
