# SPDX-License-Identifier: BSD-3-Clause
# The MPI-style programs that users write, in mpi4py, by their numbers: 19 objects, 20 buffers, 21 waiting, 22 a chain,
# 23 ghost cells, 24 blocking against non-blocking, 25 test. Each rank checks; rank 0 tells all results as TAP, and what
# was sent at least. No numpy: the interpreter may lack it.
import sys
from array import array

from mpi4py import MPI

world = MPI.COMM_WORLD
rank, size = world.Get_rank(), world.Get_size()
sent = 0


def equal(found, wanted):
    if found != wanted:
        raise AssertionError(f"{found!r:.200} is not {wanted!r:.200}")


def objects():
    "19: isend and irecv of a pickled dict"
    global sent
    data = {"rank": rank, "list": [1.5, "text", (None, True)], "bytes": bytes(range(256)) * 200}
    request = world.isend(data, dest=(rank + 1) % size, tag=11)
    sent += len(data["bytes"])
    left = (rank - 1) % size
    got = world.irecv(1 << 20, source=left, tag=11).wait()
    request.wait()
    equal(got, {**data, "rank": left})


def buffers():
    "20: Isend and Irecv of arange * (rank + 1)"
    global sent
    for count in (10, 1000, 100000):
        out = array("d", (i * (rank + 1.0) for i in range(count)))
        room = array("d", bytes(8 * count))
        left = (rank - 1) % size
        requests = [world.Irecv(room, source=left, tag=77), world.Isend(out, dest=(rank + 1) % size, tag=77)]
        sent += 8 * count
        MPI.Request.Waitall(requests)
        equal(room, array("d", (i * (left + 1.0) for i in range(count))))


def waiting():
    "21: waitall; waitany gives each index once; waitsome, testall, testany"
    global sent

    def posted():
        global sent
        sent += 20 * 4
        rooms = [array("i", [-1]) for _ in range(20)]
        requests = [world.Irecv(rooms[i], source=(rank - 1) % size, tag=i) for i in range(20)]
        outs = [array("i", [100 * rank + i]) for i in range(20)]
        sends = [world.Isend(outs[i], dest=(rank + 1) % size, tag=i) for i in reversed(range(20))]
        return rooms, requests, sends, outs

    def checked(rooms, sends):
        MPI.Request.Waitall(sends)
        equal([room[0] for room in rooms], [100 * ((rank - 1) % size) + i for i in range(20)])

    rooms, requests, sends, outs = posted()
    MPI.Request.Waitall(requests)
    checked(rooms, sends)
    rooms, requests, sends, outs = posted()
    equal(sorted(MPI.Request.Waitany(requests) for _ in range(20)), list(range(20)))
    equal(MPI.Request.Waitany(requests), MPI.UNDEFINED)
    checked(rooms, sends)
    rooms, requests, sends, outs = posted()
    done = []
    while len(done) < 20:
        done += MPI.Request.Waitsome(requests)
    equal(sorted(done), list(range(20)))
    checked(rooms, sends)
    rooms, requests, sends, outs = posted()
    while not MPI.Request.Testall(requests):
        pass
    checked(rooms, sends)
    rooms, requests, sends, outs = posted()
    done = []
    while len(done) < 20:
        index, flag = MPI.Request.Testany(requests)
        if flag:
            done.append(index)
    equal(sorted(done), list(range(20)))
    checked(rooms, sends)


def chain():
    "22: a non-blocking chain to the right; the ends have no neighbour"
    global sent
    left = rank - 1 if rank > 0 else MPI.PROC_NULL
    right = rank + 1 if rank < size - 1 else MPI.PROC_NULL
    room, out = array("i", [-1]), array("i", [rank * rank])
    requests = [world.Irecv(room, source=left), world.Isend(out, dest=right)]
    sent += 4 if right != MPI.PROC_NULL else 0
    MPI.Request.Waitall(requests)
    equal(room[0], (rank - 1) ** 2 if rank > 0 else -1)


def ghosts():
    "23: ghost cells exchanged while the interior is computed equal the sequential result"
    global sent
    part, steps = 500, 30
    start = [((i * 7919) % 1000) / 8.0 for i in range(part * size)]

    def step(cells):
        return [(cells[i - 1] + cells[i] * 2 + cells[i + 1]) / 4 for i in range(1, len(cells) - 1)]

    whole = start
    for _ in range(steps):
        whole = step([0.0] + whole + [0.0])
    mine = start[rank * part : (rank + 1) * part]
    left = rank - 1 if rank > 0 else MPI.PROC_NULL
    right = rank + 1 if rank < size - 1 else MPI.PROC_NULL
    for _ in range(steps):
        low, high = array("d", [0.0]), array("d", [0.0])
        first, last = array("d", mine[:1]), array("d", mine[-1:])
        requests = [
            world.Irecv(low, source=left, tag=1),
            world.Irecv(high, source=right, tag=2),
            world.Isend(first, dest=left, tag=2),
            world.Isend(last, dest=right, tag=1),
        ]
        sent += 8 * ((left != MPI.PROC_NULL) + (right != MPI.PROC_NULL))
        interior = step(mine)
        MPI.Request.Waitall(requests)
        borders = step([low[0]] + mine[:2]) + step(mine[-2:] + [high[0]])
        mine = borders[:1] + interior + borders[1:]
    equal(mine, whole[rank * part : (rank + 1) * part])


def mixed():
    "24: a blocking receive matches a non-blocking send"
    global sent
    out = array("i", range(5000))
    request = world.Isend(out, dest=rank ^ 1, tag=3)
    sent += 4 * len(out)
    room = array("i", bytes(4 * 5000))
    status = MPI.Status()
    world.Recv(room, source=MPI.ANY_SOURCE, tag=MPI.ANY_TAG, status=status)
    request.Wait()
    equal(room, out)
    equal((status.Get_source(), status.Get_tag(), status.Get_count(MPI.INT)), (rank ^ 1, 3, 5000))


def tested():
    "25: test is false, then true with the data"
    global sent
    request = world.irecv(source=rank ^ 1, tag=4)
    for _ in range(20):
        equal(request.test(), (False, None))
    world.Barrier()
    out = world.isend(("now", rank), dest=rank ^ 1, tag=4)
    sent += 1
    flag = False
    while not flag:
        flag, data = request.test()
    out.wait()
    equal(data, ("now", rank ^ 1))


failed = 0
for number, program in enumerate((objects, buffers, waiting, chain, ghosts, mixed, tested), 1):
    problem = None
    try:
        program()
    except AssertionError as error:
        problem = str(error)
    for who, one in enumerate(world.gather(problem) or []):
        if one is not None:
            print(f"# rank {who}: {one}")
    problem = world.allreduce(problem is not None, op=MPI.LOR)
    failed += problem
    if rank == 0:
        print(f"{'not ok' if problem else 'ok'} {number} - mpi4py {program.__doc__}", flush=True)
total = world.reduce(sent)
if rank == 0:
    print(f"# sent 1 messages {total} bytes", flush=True)
sys.exit(failed != 0)
