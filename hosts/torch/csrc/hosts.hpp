/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * csrc/hosts.hpp - a group whose ranks are on several hosts. Within a host its members form a group of the table; between hosts
 * the wire carries messages. A thread of the group makes the collectives, in the order of their posting.
 */
#ifndef NIGH_TORCH_HOSTS_H
#define NIGH_TORCH_HOSTS_H

#include "collective.hpp"
#include "wire.hpp"

#include <map>

namespace nigh_torch
{

/* into[i] = into[i] op from[i]; `type` and `op` are the table's. False: not defined. */
bool combine(uint32_t type, uint32_t op, void *into, const void *from, uint64_t count);
void divide(uint32_t type, void *data, uint64_t count, int by);
/* Bytes of an element. */
uint64_t width_of(const struct nigh_collective &call);

/* Which ranks are on which host. Hosts are numbered in the order of their lowest ranks. */
struct Places {
    Places() = default;
    /* By the lowest rank on each one's host. */
    explicit Places(const std::vector<int> &lowest, int rank);
    std::vector<std::vector<int>> hosts;
    std::vector<int> host_of, place_of; /* of each rank: its host, and its place among that one's */
    int here = 0;
};

/* Tags of the wire. */
enum : uint64_t { message_class = 0, collective_class = 1, barrier_class = 2 };
inline uint64_t wire_tag(uint64_t of, uint64_t number)
{
    return of << 60 | number;
}

class RemoteMessage;

class Hosts
{
  public:
    Hosts(State &state, Places places, std::vector<std::string> names,
          c10::intrusive_ptr<c10d::Backend> gloo);
    ~Hosts();
    void start();
    /* Ends all that is outstanding here. */
    void stop();

    bool is_here(int rank) const
    {
        return places.host_of[static_cast<size_t>(rank)] == places.here;
    }
    /* Makes the calls of a collective, after those before it. */
    void run(Ref<Collective> op);
    /* Waits for an operation that a thread of ours ends. */
    bool await(Op &op, Clock::time_point until);
    /* A post of it has ended; takes its reference. */
    void finish(Op &op);
    /* Who has not come to the operation of that number; asks the other hosts. */
    std::string missing(uint64_t number);
    /* Why a rank of another host is gone. */
    std::string lost(int rank) const;
    std::string host_name(int rank) const
    {
        return names_[static_cast<size_t>(rank)];
    }
    /* Ends the collectives of the group; tells all ranks, if the group goes on here. */
    void end(int error, const std::string &text);
    /* 0, or what they fail with. */
    int status() const;
    void say_bye();
    /* A message that the only thread of the program waits for, and has done for some time. */
    void show_waiting(RemoteMessage &message);
    /* It does no more; or only if the wait was proved to be in vain. Returns who waits for whom then. */
    std::string stop_waiting(const RemoteMessage &message, bool if_proved);

    Wire wire;
    const Places places;

  private:
    struct Broken {
        int error;
        std::string text;
    };
    struct Ticket {
        bool is_done = false;
        int error = 0, peer = -1;
        uint64_t wanted = 0, id = 0;
        Header header = {};
        Wire::Receipt receive;
    };
    class Exchange;
    enum Word : uint32_t { bye = Wire::word, ended, ask, answered, waits, waits_too, still, proved, stuck };
    struct Waiting {
        RemoteMessage *message = nullptr;
        uint64_t serial = 0;
        int peer = -1;
        std::string text, proof;
    };

    void heard(int from, const Header &header, const std::string &text);
    void heard_waits(int from, const Header &header, const std::string &text);
    void say_waits(int peer, uint32_t kind, uint64_t mine, uint64_t theirs, const std::string &text = "");
    bool waits_for(int peer, uint64_t &serial, std::string &text);
    void prove(int peer, uint64_t serial, const std::string &theirs);
    bool is_stuck(const Op &op) const;
    void lost_peer(int peer, const std::string &why);
    void arrived(int from, const Header &header);
    void compare(int rank, const Print &theirs, const Print &ours);
    void conduct();
    void perform(const struct nigh_collective &call);
    void begin(const Print &print);
    void agree(const Print &print);
    void check_end();
    void local(struct nigh_collective call);

    void barrier(const struct nigh_collective &call);
    void broadcast(const struct nigh_collective &call);
    void reduce(const struct nigh_collective &call);
    void allreduce(const struct nigh_collective &call);
    void between(const struct nigh_collective &call, void *data);
    void gather(const struct nigh_collective &call);
    void scatter(const struct nigh_collective &call);
    void allgather(const struct nigh_collective &call);
    void alltoall(const struct nigh_collective &call);
    void reduce_scatter(const struct nigh_collective &call);
    void local_reduce(const struct nigh_collective &call, int root, uint64_t count, void *into);
    int boss(int host) const;
    int boss(int host, int root) const;
    const std::vector<int> &mine() const;

    State &state_;
    const std::vector<std::string> names_;
    std::thread thread_;
    std::atomic<bool> agrees_{false}; /* it waits for the ranks of this host to come */

    mutable std::mutex mutex_; /* of all below */
    std::condition_variable cv_;
    std::deque<Ref<Collective>> queue_;
    bool stopping_ = false, started_ = false;
    int ended_ = 0;
    std::string ended_text_;
    Print prints_[64] = {};
    uint64_t serial_ = 0;
    std::map<uint64_t, std::vector<std::pair<int, Print>>> early_; /* by their serials */
    std::map<int, std::string> lost_;
    std::map<int, uint64_t> answers_;
    uint64_t asked_ = 0;
    Waiting waiting_;
    uint64_t waits_ = 0;
};

} // namespace nigh_torch

#endif
