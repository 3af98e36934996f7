# SPDX-License-Identifier: BSD-3-Clause
"""Half a round trip of 8 bytes, blocking and non-blocking: median and 99th percentile."""
import torch
import torch.distributed as dist

from run import run


from time import perf_counter

ROUNDS = 500


def percentiles(times):
    times = sorted(times[50:])
    return times[len(times) // 2] * 1e6, times[len(times) * 99 // 100] * 1e6


def main():
    rank = dist.get_rank()
    data = torch.zeros(1, dtype=torch.float64)

    def blocking():
        if rank == 0:
            dist.send(data, 1)
            dist.recv(data, 1)
        else:
            dist.recv(data, 0)
            dist.send(data, 0)

    def requests():
        peer = 1 - rank
        if rank == 0:
            dist.isend(data, peer).wait()
            dist.irecv(data, peer).wait()
        else:
            dist.irecv(data, peer).wait()
            dist.isend(data, peer).wait()

    for name, step in (("send/recv", blocking), ("isend/irecv", requests)):
        times = []
        for _ in range(ROUNDS):
            begin = perf_counter()
            step()
            times.append((perf_counter() - begin) / 2)
        if rank == 0:
            print("%s: median %.1f us, p99 %.1f us" % (name, *percentiles(times)))


if __name__ == "__main__":
    run(main, 2)
