# SPDX-License-Identifier: BSD-3-Clause
"""The package's examples as cases: their output is compared."""
import importlib
import signal
import sys

# What each prints, all ranks' lines sorted; "*" stands for anything.
EXAMPLES = {
    "send_recv": (2, ["rank 1: a receive into 0 is a TypeError", "rank 1: equal True, from rank 0"]),
    "isend_compute_wait": (2, ["rank 0: sent, and computed 64", "rank 1: all 7: True"]),
    "irecv_polled": (2, ["rank 1: 42"]),
    "exchange": (2, ["rank 0: 11", "rank 1: 10"]),
    "relay": (4, ["rank 3: 25"]),
    "pipeline": (4, [f"stage {i}: gradient as in one process: True" for i in range(4)]),
    "ring": (4, ["rank 0: 103", "rank 0: 31", "rank 1: 100", "rank 2: 101", "rank 3: 102"]),
    "even_odd": (5, [f"rank {i}: all as sent" for i in range(5)]),
    "latency": (2, ["isend/irecv: median * us, p99 * us", "send/recv: median * us, p99 * us"]),
    "collectives": (4, [
        f"rank {i}: broadcast 1, all_reduce 10, scatter {i + 1}, all_gather [1, 2, 3, 4], average 1.5"
        + (", reduce 10" if i == 2 else "") + (", gather [1, 2, 3, 4]" if i == 0 else "") for i in range(4)]),
    "all_reduce_async": (4, [f"rank {i}: 6.0 True 332833500" for i in range(4)]),
    "subgroups": (4, ["rank 0: 4", "rank 1: 6", "rank 2: 4", "rank 3: 6"]),
    "wrong_both_send": (2, [
        "rank 0: nigh: rank 0 of 2*wait for each other*16777216 bytes to rank*tag 0*isend*",
        "rank 0: small ones arrive: 1",
        "rank 1: nigh: rank 1 of 2*wait for each other*16777216 bytes to rank*tag 0*isend*",
        "rank 1: small ones arrive: 0"]),
    "wrong_both_send_strict": (2, [
        "rank 0: nigh: rank 0 of 2*wait for each other*16 bytes to rank*tag 0*isend*", "rank 0: 11",
        "rank 1: nigh: rank 1 of 2*wait for each other*16 bytes to rank*tag 0*isend*", "rank 1: 10"]),
    "wrong_both_receive": (2, [
        f"rank {i}: nigh: rank {i} of 2*wait for each other*receives 16 bytes from rank*irecv*" for i in range(2)]),
    "wrong_tag": (2, ["rank 1: nigh: *recv from rank 0, tag 5*unmatched is a message from rank 0, tag 6, 16 bytes*",
                      "rank 1: the message of tag 6 is there: True"]),
    "wrong_size": (2, ["rank 1: behind the tensor nothing is written: True",
                       "rank 1: nigh: *rank 0 has sent 32 bytes*room for 16*",
                       "rank 1: nigh: *rank 0 has sent 8 bytes*room for 16*",
                       "rank 1: the next one is right: 3"]),
    "wrong_changed": (2, [
        f"rank {i}: {text}" for i in range(2) for text in (
            "nigh: *send to rank *tag 3, 32 bytes*(*wrong_changed.py:*)*changed before*byte 22, element 5*",
            "nigh: *all_gather number *(*wrong_changed.py:*)*changed before*byte 10, element 2*",
            "after the wait: no error")]),
    "wrong_collective": (2, [
        f"rank {i}: {text}" for i in range(2) for text in (
            "nigh: *different calls*barrier*",
            "nigh: *allreduce of * f32*allreduce of * f32*", "the world goes on: 2")]),
    "wrong_dropped": (2, ["*left over at the end: recv from rank 1, tag 9, 16 bytes of Float (*wrong_dropped.py:*) *",
                          "rank 0: done", "rank 1: done"]),
    "wrong_exit": (3, [f"rank {i}: True in a second: True" for i in (0, 0, 1, 1)]),
}
ENVIRONMENT = {
    "wrong_both_send_strict": {"NIGH_STRICT": "1"},
    "wrong_changed": {"NIGH_DEBUG": "1"},
    "wrong_dropped": {"NIGH_DEBUG": "1"},  # places of calls
}


def example(name, folder):
    ranks, wanted = EXAMPLES[name]

    def function():
        sys.path.insert(0, folder)
        importlib.import_module(name).main()

    function.__name__, function.lines = name, wanted
    function.environment = ENVIRONMENT.get(name, {})
    function.dies = {2: -signal.SIGKILL} if name == "wrong_exit" else {}
    return function, ranks, True
