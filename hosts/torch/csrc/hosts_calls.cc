/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * csrc/hosts_calls.cc - collectives of a group on several hosts. One rank of each host, its boss, speaks for it: the root on
 * the root's host, else the lowest. Results are combined in the order of the hosts, at one place for each part, so all ranks get
 * the same bits.
 */
#include "exchange.hpp"

#include <cerrno>
#include <cstring>

namespace nigh_torch
{

/* From here on the bosses share the work of a reduction; below, each does it all, in one step. */
static const uint64_t share_from = 32768;

using Buffer = std::vector<char>;

/* ---- messages ---- */

Hosts::Exchange::~Exchange()
{
    for (const TicketRef &ticket : tickets_) {
        bool taken = ticket->receive ? hosts_.wire.withdraw(ticket->receive)
                                     : ticket->id && hosts_.wire.retract(ticket->id);
        std::unique_lock<std::mutex> lock(hosts_.mutex_);
        if (taken)
            continue;
        hosts_.cv_.wait(lock, [&ticket] { return ticket->is_done; });
    }
}

void Hosts::Exchange::end(const TicketRef &ticket, int error, const Header &header)
{
    std::lock_guard<std::mutex> lock(hosts_.mutex_);

    ticket->error = error;
    ticket->header = header;
    ticket->is_done = true;
    hosts_.cv_.notify_all();
}

static uint64_t phase_tag(uint64_t serial, uint32_t phase)
{
    return wire_tag(collective_class, serial << 4 | phase);
}

void Hosts::Exchange::send(int rank, const void *data, uint64_t bytes, uint32_t phase)
{
    auto ticket = std::make_shared<Ticket>();
    Header header = {};
    Hosts &hosts = hosts_;
    int rc;

    ticket->peer = rank;
    header.print = hosts.prints_[hosts.serial_ % 64];
    header.tag = phase_tag(hosts.serial_, phase);
    header.bytes = bytes;
    tickets_.push_back(ticket);
    rc = hosts.wire.send(
        rank, header, data,
        [&hosts, ticket](int error) {
            std::lock_guard<std::mutex> lock(hosts.mutex_);
            ticket->error = error;
            ticket->is_done = true;
            hosts.cv_.notify_all();
        },
        &ticket->id);
    if (rc)
        end(ticket, rc, header);
}

void Hosts::Exchange::receive(int rank, void *data, uint64_t bytes, uint32_t phase)
{
    auto ticket = std::make_shared<Ticket>();
    Hosts &hosts = hosts_;

    ticket->peer = rank;
    ticket->wanted = bytes;
    ticket->receive = std::make_shared<Wire::Receive>();
    ticket->receive->peer = rank;
    ticket->receive->tag = phase_tag(hosts.serial_, phase);
    ticket->receive->data = data;
    ticket->receive->room = bytes;
    std::weak_ptr<Ticket> weak = ticket; /* which holds the receive */
    ticket->receive->done = [&hosts, weak](int error, int, const Header &header) {
        std::lock_guard<std::mutex> lock(hosts.mutex_);
        if (auto its = weak.lock()) {
            its->error = error;
            its->header = header;
            its->is_done = true;
        }
        hosts.cv_.notify_all();
    };
    tickets_.push_back(ticket);
    hosts.wire.receive(ticket->receive);
}

void Hosts::Exchange::wait()
{
    for (const TicketRef &ticket : tickets_) {
        {
            std::unique_lock<std::mutex> lock(hosts_.mutex_);
            hosts_.cv_.wait(lock, [&] { return ticket->is_done || hosts_.ended_ || hosts_.stopping_; });
        }
        hosts_.check_end();
        if (ticket->error)
            throw Broken{ticket->error, hosts_.state_.lost(ticket->peer)};
        if (ticket->receive && ticket->header.bytes != ticket->wanted)
            throw Broken{-EPROTO, "the ranks have made different calls: " + hosts_.state_.who(ticket->peer) +
                                      " sends " + std::to_string(ticket->header.bytes) + " bytes to " +
                                      hosts_.state_.who(hosts_.state_.rank) + ", which has room for " +
                                      std::to_string(ticket->wanted)};
    }
    tickets_.clear();
}

/* ---- what all need ---- */

const std::vector<int> &Hosts::mine() const
{
    return places.hosts[static_cast<size_t>(places.here)];
}

int Hosts::boss(int host) const
{
    return places.hosts[static_cast<size_t>(host)][0];
}

int Hosts::boss(int host, int root) const
{
    return places.host_of[static_cast<size_t>(root)] == host ? root : boss(host);
}

static uint32_t place(const Places &places, int rank)
{
    return static_cast<uint32_t>(places.place_of[static_cast<size_t>(rank)]);
}

static char *at(void *base, uint64_t bytes)
{
    return base ? static_cast<char *>(base) + bytes : nullptr;
}

static const char *at(const void *base, uint64_t bytes)
{
    return base ? static_cast<const char *>(base) + bytes : nullptr;
}

static bool in_place(const struct nigh_collective &call)
{
    return call.flags & NIGH_COLLECTIVE_IN_PLACE;
}

namespace
{
/* Where the block of each rank begins, and how long it is, in bytes. */
struct Blocks {
    Blocks(const uint64_t *counts, uint64_t count, size_t ranks, uint64_t width)
        : from(ranks + 1), bytes(ranks)
    {
        for (size_t i = 0; i < ranks; i++) {
            bytes[i] = (counts ? counts[i] : count) * width;
            from[i + 1] = from[i] + bytes[i];
        }
    }
    uint64_t sum(const std::vector<int> &members) const
    {
        uint64_t out = 0;

        for (int member : members)
            out += bytes[static_cast<size_t>(member)];
        return out;
    }
    uint64_t all() const
    {
        return from.back();
    }
    std::vector<uint64_t> counts(const std::vector<int> &members, uint64_t width) const
    {
        std::vector<uint64_t> out;

        for (int member : members)
            out.push_back(bytes[static_cast<size_t>(member)] / width);
        return out;
    }
    std::vector<uint64_t> from, bytes;
};
} // namespace

/* Blocks of some ranks, one behind the other; and back. */
static void pack(void *into, const void *base, const Blocks &blocks, const std::vector<int> &members)
{
    char *to = static_cast<char *>(into);

    for (int member : members) {
        size_t i = static_cast<size_t>(member);

        if (blocks.bytes[i])
            std::memcpy(to, at(base, blocks.from[i]), blocks.bytes[i]);
        to += blocks.bytes[i];
    }
}

static void unpack(void *base, const void *packed, const Blocks &blocks, const std::vector<int> &members)
{
    const char *from = static_cast<const char *>(packed);

    for (int member : members) {
        size_t i = static_cast<size_t>(member);

        if (blocks.bytes[i])
            std::memcpy(at(base, blocks.from[i]), from, blocks.bytes[i]);
        from += blocks.bytes[i];
    }
}

static void *pointer(Buffer &bytes)
{
    return bytes.empty() ? nullptr : bytes.data();
}

/* A call of the table of the same type. */
static struct nigh_collective like(const struct nigh_collective &call, enum nigh_collective_op op,
                                   uint64_t count)
{
    struct nigh_collective out = {};

    out.op = static_cast<uint16_t>(op);
    out.type = call.type;
    out.width = call.width;
    out.count = count;
    return out;
}

static void combine_all(const struct nigh_collective &call, void *into,
                        const std::vector<const void *> &parts, uint64_t count, uint64_t width)
{
    if (parts[0] != into && count)
        std::memcpy(into, parts[0], count * width);
    for (size_t i = 1; i < parts.size(); i++)
        if (count && !combine(call.type, call.reduction, into, parts[i], count))
            throw std::runtime_error("the reduction is not defined");
}

void Hosts::perform(const struct nigh_collective &call)
{
    Print print = {};

    print.op = call.op;
    print.root = call.root;
    print.reduction = call.reduction;
    print.serial = serial_ + 1;
    if (call.op == NIGH_BROADCAST)
        print.count = call.count * width_of(call);
    if (call.op == NIGH_REDUCE || call.op == NIGH_ALLREDUCE)
        print.count = call.count;
    if (call.reduction)
        print.type = call.type;
    begin(print);
    agree(print);
    switch (call.op) {
    case NIGH_BARRIER:
        return barrier(call);
    case NIGH_BROADCAST:
        return broadcast(call);
    case NIGH_REDUCE:
        return reduce(call);
    case NIGH_ALLREDUCE:
        return allreduce(call);
    case NIGH_GATHER:
        return gather(call);
    case NIGH_SCATTER:
        return scatter(call);
    case NIGH_ALLGATHER:
        return allgather(call);
    case NIGH_ALLTOALL:
        return alltoall(call);
    default:
        return reduce_scatter(call);
    }
}

/* ---- the calls ---- */

/* All ranks of a host have come when agree() returns. */
void Hosts::barrier(const struct nigh_collective &call)
{
    if (state_.rank == boss(places.here)) {
        Exchange exchange(*this);

        for (size_t host = 0; host < places.hosts.size(); host++)
            if (static_cast<int>(host) != places.here) {
                exchange.receive(boss(static_cast<int>(host)), nullptr, 0);
                exchange.send(boss(static_cast<int>(host)), nullptr, 0);
            }
        exchange.wait();
    }
    local(like(call, NIGH_BARRIER, 0));
}

void Hosts::broadcast(const struct nigh_collective &call)
{
    int root = static_cast<int>(call.root), first = boss(places.here, root);
    uint64_t bytes = call.count * width_of(call);
    struct nigh_collective step = like(call, NIGH_BROADCAST, call.count);
    Exchange exchange(*this);

    if (state_.rank == root) {
        for (size_t host = 0; host < places.hosts.size(); host++)
            if (static_cast<int>(host) != places.here)
                exchange.send(boss(static_cast<int>(host)), call.send, bytes);
        step.send = call.send;
    } else if (state_.rank == first) {
        exchange.receive(root, call.recv, bytes);
        exchange.wait();
        step.send = call.recv;
    } else {
        step.recv = call.recv;
    }
    step.root = place(places, first);
    local(step);
    exchange.wait();
}

/* What the ranks of this host give, reduced at the one of that place. AVG divides at the end. */
void Hosts::local_reduce(const struct nigh_collective &call, int root, uint64_t count, void *into)
{
    struct nigh_collective step = like(call, NIGH_REDUCE, count);

    step.root = place(places, root);
    step.reduction = call.reduction == NIGH_AVG ? static_cast<uint16_t>(NIGH_SUM) : call.reduction;
    step.factor = call.factor;
    step.send = in_place(call) ? call.recv : call.send;
    if (state_.rank == root) {
        step.recv = into;
        if (step.send == into) {
            step.flags = NIGH_COLLECTIVE_IN_PLACE;
            step.send = nullptr;
        }
    }
    local(step);
}

void Hosts::reduce(const struct nigh_collective &call)
{
    int root = static_cast<int>(call.root), first = boss(places.here, root);
    uint64_t width = width_of(call), bytes = call.count * width;
    Buffer own(state_.rank == first && first != root ? bytes : 0);
    std::vector<Buffer> parts(places.hosts.size());
    std::vector<const void *> all;
    Exchange exchange(*this);

    local_reduce(call, first, call.count, first == root ? call.recv : pointer(own));
    if (state_.rank != first)
        return;
    if (first != root) {
        exchange.send(root, own.data(), bytes);
        exchange.wait();
        return;
    }
    for (size_t host = 0; host < parts.size(); host++) {
        parts[host].resize(bytes);
        if (static_cast<int>(host) == places.here) {
            if (bytes)
                std::memcpy(parts[host].data(), call.recv, bytes);
        } else {
            exchange.receive(boss(static_cast<int>(host)), pointer(parts[host]), bytes);
        }
        all.push_back(parts[host].data());
    }
    exchange.wait();
    combine_all(call, call.recv, all, call.count, width);
    if (call.reduction == NIGH_AVG)
        divide(call.type, call.recv, call.count, state_.size);
}

/* The bosses: `data` holds what each host gives, and then what all give. A short one is sent whole, and each combines all; of a
 * long one each combines its share. */
void Hosts::between(const struct nigh_collective &call, void *data)
{
    size_t hosts = places.hosts.size(), here = static_cast<size_t>(places.here);
    uint64_t width = width_of(call), bytes = call.count * width;
    bool is_shared = bytes > share_from;
    std::vector<uint64_t> counts(hosts, is_shared ? call.count / hosts : call.count);

    if (is_shared)
        counts[hosts - 1] += call.count % hosts;
    Blocks blocks(counts.data(), 0, hosts, width);
    uint64_t mine = counts[here], begin = is_shared ? blocks.from[here] : 0;
    std::vector<Buffer> parts(hosts);
    std::vector<const void *> all;
    Exchange exchange(*this);

    for (size_t host = 0; host < hosts; host++) {
        int other = boss(static_cast<int>(host));

        parts[host].resize(mine * width);
        all.push_back(parts[host].data());
        if (host == here) {
            if (mine)
                std::memcpy(parts[host].data(), at(data, begin), mine * width);
            continue;
        }
        exchange.receive(other, pointer(parts[host]), mine * width);
        exchange.send(other, at(data, is_shared ? blocks.from[host] : 0), blocks.bytes[host]);
    }
    exchange.wait();
    combine_all(call, at(data, begin), all, mine, width);
    if (call.reduction == NIGH_AVG)
        divide(call.type, at(data, begin), mine, state_.size);
    if (!is_shared)
        return;
    for (size_t host = 0; host < hosts; host++)
        if (host != here) {
            exchange.receive(boss(static_cast<int>(host)), at(data, blocks.from[host]), blocks.bytes[host],
                             1);
            exchange.send(boss(static_cast<int>(host)), at(data, begin), mine * width, 1);
        }
    exchange.wait();
}

void Hosts::allreduce(const struct nigh_collective &call)
{
    int first = boss(places.here);
    struct nigh_collective step = like(call, NIGH_BROADCAST, call.count);

    local_reduce(call, first, call.count, call.recv);
    if (state_.rank == first) {
        between(call, call.recv);
        step.send = call.recv;
    } else {
        step.recv = call.recv;
    }
    local(step);
}

void Hosts::gather(const struct nigh_collective &call)
{
    int root = static_cast<int>(call.root);
    uint64_t width = width_of(call);
    const std::vector<int> &members = mine();
    Exchange exchange(*this);

    if (!is_here(root)) {
        exchange.send(root, call.send, call.count * width);
        exchange.wait();
        return;
    }
    struct nigh_collective step = like(call, NIGH_GATHER, call.count);
    step.root = place(places, root);
    step.send = call.send;
    if (state_.rank != root)
        return local(step);

    Blocks blocks(call.recv_counts, call.count, static_cast<size_t>(state_.size), width);
    Buffer packed(blocks.sum(members));
    std::vector<uint64_t> counts = blocks.counts(members, width);

    for (size_t rank = 0; rank < blocks.bytes.size(); rank++)
        if (!is_here(static_cast<int>(rank)))
            exchange.receive(static_cast<int>(rank), at(call.recv, blocks.from[rank]), blocks.bytes[rank]);
    if (in_place(call))
        step.send = at(call.recv, blocks.from[static_cast<size_t>(root)]);
    step.recv = pointer(packed);
    step.recv_counts = counts.data();
    local(step);
    unpack(call.recv, packed.data(), blocks, members);
    exchange.wait();
}

void Hosts::scatter(const struct nigh_collective &call)
{
    int root = static_cast<int>(call.root);
    uint64_t width = width_of(call);
    const std::vector<int> &members = mine();
    Exchange exchange(*this);

    if (!is_here(root)) {
        exchange.receive(root, call.recv, call.count * width);
        exchange.wait();
        return;
    }
    struct nigh_collective step = like(call, NIGH_SCATTER, call.count);
    step.root = place(places, root);
    step.recv = call.recv;
    if (state_.rank != root)
        return local(step);

    Blocks blocks(call.send_counts, call.count, static_cast<size_t>(state_.size), width);
    Buffer packed(blocks.sum(members));
    std::vector<uint64_t> counts = blocks.counts(members, width);

    for (size_t rank = 0; rank < blocks.bytes.size(); rank++)
        if (!is_here(static_cast<int>(rank)))
            exchange.send(static_cast<int>(rank), at(call.send, blocks.from[rank]), blocks.bytes[rank]);
    pack(packed.data(), call.send, blocks, members);
    step.send = pointer(packed);
    step.send_counts = counts.data();
    local(step);
    exchange.wait();
}

/* Blocks are in the order of the hosts on their way, and put into the ranks' at each rank. */
void Hosts::allgather(const struct nigh_collective &call)
{
    uint64_t width = width_of(call), begin = 0, to = 0;
    size_t ranks = static_cast<size_t>(state_.size);
    Blocks blocks(call.recv_counts, call.count, ranks, width);
    Buffer packed(blocks.all());
    std::vector<uint64_t> counts = blocks.counts(mine(), width);
    struct nigh_collective step = like(call, NIGH_GATHER, call.count);
    Exchange exchange(*this);

    for (int host = 0; host < places.here; host++)
        begin += blocks.sum(places.hosts[static_cast<size_t>(host)]);
    step.send = in_place(call) ? at(call.recv, blocks.from[static_cast<size_t>(state_.rank)]) : call.send;
    if (state_.rank == boss(places.here)) {
        step.recv = at(pointer(packed), begin);
        step.recv_counts = counts.data();
    }
    local(step);
    if (state_.rank == boss(places.here)) {
        for (size_t host = 0; host < places.hosts.size(); host++) {
            uint64_t bytes = blocks.sum(places.hosts[host]);

            if (static_cast<int>(host) != places.here) {
                exchange.receive(boss(static_cast<int>(host)), at(pointer(packed), to), bytes);
                exchange.send(boss(static_cast<int>(host)), at(pointer(packed), begin), blocks.sum(mine()));
            }
            to += bytes;
        }
        exchange.wait();
    }
    step = like(call, NIGH_BROADCAST, blocks.all() / width);
    (state_.rank == boss(places.here) ? const_cast<void *&>(step.send) : step.recv) = pointer(packed);
    local(step);
    const char *from = packed.data();
    for (const std::vector<int> &members : places.hosts) {
        unpack(call.recv, from, blocks, members);
        from += blocks.sum(members);
    }
}

/* Each pair by its way. */
void Hosts::alltoall(const struct nigh_collective &call)
{
    uint64_t width = width_of(call);
    size_t ranks = static_cast<size_t>(state_.size);
    const std::vector<int> &members = mine();
    Blocks sends(call.send_counts, call.count, ranks, width),
        receives(call.recv_counts, call.count, ranks, width);
    Buffer out(sends.sum(members)), in(receives.sum(members));
    std::vector<uint64_t> send_counts = sends.counts(members, width),
                          recv_counts = receives.counts(members, width);
    struct nigh_collective step = like(call, NIGH_ALLTOALL, 0);
    Exchange exchange(*this);

    for (size_t rank = 0; rank < ranks; rank++)
        if (!is_here(static_cast<int>(rank))) {
            exchange.receive(static_cast<int>(rank), at(call.recv, receives.from[rank]),
                             receives.bytes[rank]);
            exchange.send(static_cast<int>(rank), at(call.send, sends.from[rank]), sends.bytes[rank]);
        }
    pack(out.data(), call.send, sends, members);
    step.send = pointer(out);
    step.recv = pointer(in);
    step.send_counts = send_counts.data();
    step.recv_counts = recv_counts.data();
    local(step);
    unpack(call.recv, in.data(), receives, members);
    exchange.wait();
}

void Hosts::reduce_scatter(const struct nigh_collective &call)
{
    int first = boss(places.here);
    uint64_t width = width_of(call);
    Blocks blocks(call.recv_counts, call.count, static_cast<size_t>(state_.size), width);
    Buffer whole(state_.rank == first ? blocks.all() : 0), result;
    std::vector<Buffer> out(places.hosts.size()), in(places.hosts.size());
    std::vector<const void *> parts;
    std::vector<uint64_t> counts = blocks.counts(mine(), width);
    struct nigh_collective step =
        like(call, NIGH_SCATTER, blocks.bytes[static_cast<size_t>(state_.rank)] / width);
    Exchange exchange(*this);

    local_reduce(call, first, blocks.all() / width, pointer(whole));
    if (state_.rank == first) {
        uint64_t bytes = blocks.sum(mine());

        for (size_t host = 0; host < out.size(); host++) {
            out[host].resize(blocks.sum(places.hosts[host]));
            pack(out[host].data(), whole.data(), blocks, places.hosts[host]);
            in[host].resize(bytes);
            parts.push_back(static_cast<int>(host) == places.here ? out[host].data() : in[host].data());
            if (static_cast<int>(host) != places.here) {
                exchange.receive(boss(static_cast<int>(host)), pointer(in[host]), bytes);
                exchange.send(boss(static_cast<int>(host)), pointer(out[host]), out[host].size());
            }
        }
        exchange.wait();
        result.resize(bytes);
        combine_all(call, result.data(), parts, bytes / width, width);
        if (call.reduction == NIGH_AVG)
            divide(call.type, result.data(), bytes / width, state_.size);
        step.send = pointer(result);
        step.send_counts = counts.data();
    }
    step.recv = call.recv;
    local(step);
}

} // namespace nigh_torch
