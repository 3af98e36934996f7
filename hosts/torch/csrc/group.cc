/* SPDX-License-Identifier: BSD-3-Clause */
/* csrc/group.cc - see group.hpp. The life of a group, and its messages; collectives stand in group_collectives.cc. */
#include "group.hpp"
#include "remote.hpp"
#include "sparse.hpp"
#include "stage.hpp"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <pthread.h>

#include <algorithm>
#include <cerrno>
#include <set>

namespace nigh_torch
{

/* How long an ending group lets what is on its way finish. */
static const milliseconds patience_at_shutdown(5000), patience_at_exit(2000);

std::string (*Group::site)();

static std::mutex groups_mutex;
static std::set<Group *> groups;

/* No thread of the child would release it. */
static void hold_groups()
{
    groups_mutex.lock();
}

static void free_groups()
{
    groups_mutex.unlock();
}

static std::string ranks_text(const std::vector<int64_t> &global, int size)
{
    std::string out = "[";

    for (int i = 0; i < size; i++)
        out += (i ? "," : "") + std::to_string(global.empty() ? i : global[static_cast<size_t>(i)]);
    return out + "]";
}

Group::Group(const c10::intrusive_ptr<c10d::Store> &store, int rank, int size, milliseconds timeout,
             const std::string &name, const std::vector<int64_t> &global, const MakeGloo &make_gloo)
    : Backend(rank, size), state_(std::make_shared<State>(Engine::get(), rank, size))
{
    state_->name = name;
    state_->global = global;
    state_->timeout = timeout;
    state_->left.resize(static_cast<size_t>(size));
    static const int registered = pthread_atfork(hold_groups, free_groups, free_groups);
    (void)registered;
    try {
        join_group(store, make_gloo);
    } catch (const c10::Error &) {
        give_up();
        throw;
    } catch (const std::exception &problem) {
        give_up();
        raise(problem.what());
    }
    std::lock_guard<std::mutex> lock(groups_mutex);
    groups.insert(this);
}

/* Which members are here: those that can be connected to. */
std::vector<bool> Group::connect(const Meeting &meeting)
{
    Engine &engine = state_->engine;
    const Member &me = meeting.members[static_cast<size_t>(rank_)];
    std::vector<bool> here;

    for (size_t i = 0; i < meeting.members.size(); i++) {
        const Member &member = meeting.members[i];
        int rc = engine.table()->check_address(engine.context(), &member.address);

        state_->pids.push_back(member.pid);
        here.push_back(rc != -EHOSTUNREACH && member.place == me.place);
        if (!here.back()) {
            state_->endpoints.push_back(nullptr);
            continue;
        }
        if (rc)
            raise(state_->me() + ": " + state_->who(static_cast<int>(i)) + ", process " +
                  std::to_string(member.pid) + " on " + member.host +
                  ", cannot be reached: " + std::strerror(-rc));
        state_->endpoints.push_back(engine.connect(member.address));
    }
    return here;
}

/* Each host has a group of the table, and gloo connects all ranks. */
void Group::join_hosts(const c10::intrusive_ptr<c10d::Store> &store, const Meeting &meeting,
                       const std::vector<bool> &here, const MakeGloo &make_gloo)
{
    std::string prefix = "nigh/" + std::to_string(meeting.nonce) + "/gloo";
    std::vector<std::string> names;
    int lowest = 0;

    while (!here[static_cast<size_t>(lowest)])
        lowest++;
    Places places(find_hosts(*store, meeting, rank_, lowest, state_->timeout), rank_);
    for (const Member &member : meeting.members)
        names.push_back(member.host);
    state_->members = places.hosts[static_cast<size_t>(places.here)];
    if (Message::strict && rank_ == 0)
        std::fprintf(
            stderr,
            "%s: its ranks are on several hosts: NIGH_STRICT finds two ranks that wait for each other, "
            "and longer circles only within a host; others end at the group's timeout\n",
            state_->me().c_str());
    state_->hosts = std::make_shared<Hosts>(
        *state_, std::move(places), std::move(names),
        make_gloo(c10::make_intrusive<c10d::PrefixStore>(prefix, store), rank_, size_, state_->timeout));
}

void Group::join_group(const c10::intrusive_ptr<c10d::Store> &store, const MakeGloo &make_gloo)
{
    Engine &engine = state_->engine;
    std::string ranks = ranks_text(state_->global, size_);
    Meeting meeting = meet(*store, rank_, size_, state_->name, ranks, state_->timeout);
    std::vector<bool> here = connect(meeting);
    std::vector<struct nigh_endpoint *> endpoints;
    struct nigh_group_options options = {};
    int rc;

    if (std::find(here.begin(), here.end(), false) != here.end())
        join_hosts(store, meeting, here, make_gloo);
    for (struct nigh_endpoint *endpoint : state_->endpoints)
        if (endpoint)
            endpoints.push_back(endpoint);
    state_->tag_group = meeting.tag_group;
    words_ = Ref<Words>(new Words(state_));
    words_->start();
    words_->posted();
    options.size = sizeof(options);
    options.count = static_cast<uint32_t>(endpoints.size());
    options.members = endpoints.data();
    options.id = meeting.nonce;
    state_->sparse_id = meeting.nonce + 1;
    /* More are messages alone. */
    rc = endpoints.size() > NIGH_GROUP_MAX
             ? 0
             : engine.table()->group_create(engine.context(), &options, &state_->group);
    if (rc)
        raise(state_->me() + ": cannot be made: " + std::strerror(-rc));
    if (state_->hosts)
        state_->hosts->start();
}

/* Making it has failed. */
void Group::give_up()
{
    if (words_)
        words_->stop();
    if (state_->hosts)
        state_->hosts->stop();
    for (struct nigh_endpoint *endpoint : state_->endpoints)
        if (endpoint)
            state_->engine.disconnect(endpoint);
}

Group::~Group()
{
    try {
        if (Engine::current() == &state_->engine)
            leave("has been destroyed", patience_at_shutdown);
    } catch (const std::exception &) {
        /* of a process that ends: nobody is left to be told */
    }
    std::lock_guard<std::mutex> lock(groups_mutex);
    groups.erase(this);
}

void Group::refuse_in_child()
{
    std::lock_guard<std::mutex> lock(groups_mutex);

    for (Group *group : groups)
        if (!group->state_->closing)
            group->state_->engine.check();
}

void Group::shutdown_all()
{
    std::vector<c10::intrusive_ptr<Group>> all;
    {
        std::lock_guard<std::mutex> lock(groups_mutex);
        for (Group *group : groups)
            all.push_back(c10::intrusive_ptr<Group>::unsafe_reclaim_from_nonowning(group));
    }
    for (auto &group : all)
        group->leave("ended with its process", patience_at_exit);
}

void Group::shutdown()
{
    leave("has been shut down", patience_at_shutdown);
}

void Group::abort()
{
    leave("has been aborted", milliseconds(0));
}

/* What has been begun and needs others only: sends, and collectives that nobody waits for. */
void Group::let_finish(milliseconds patience)
{
    Clock::time_point until = Clock::now() + patience;

    for (const Ref<Operation> &op : state_->outstanding(true, true))
        try {
            if (op->kind != Kind::receive)
                op->await(until);
        } catch (const c10::Error &) {
            /* It waits in vain, which tell_leftovers() says. */
        } catch (const std::exception &) {
            return; /* a signal's handler: no more patience */
        }
}

void Group::tell_leftovers()
{
    std::vector<std::string> all = state_->unwaited;
    std::string me = state_->me();

    for (const Ref<Operation> &op : state_->outstanding(true, true))
        all.push_back(op->describe() + " has not ended; it waits for " + op->waits_for());
    for (const std::string &message : drain(*state_))
        all.push_back(message);
    if (state_->hosts)
        for (const std::string &message : unreceived(*state_))
            all.push_back(message);
    for (const std::string &one : all)
        std::fprintf(stderr, "%s: left over at the end: %s\n", me.c_str(), one.c_str());
}

void Group::leave(const std::string &why, milliseconds patience)
{
    Engine &engine = state_->engine;
    struct nigh_group *group;

    if (engine.is_over())
        state_->closing =
            true; /* without the lock, which a thread of a forked child's parent may have held */
    if (state_->closing)
        return;
    {
        std::lock_guard<std::mutex> lock(state_->mutex);
        if (state_->closing)
            return;
        state_->closed_why = why; /* before others find it closing, and say why */
        state_->closing = true;
    }
    if (patience.count() > 0) {
        let_finish(patience);
        tell_leftovers();
    }
    words_->say_bye();
    if (state_->hosts) {
        state_->hosts->say_bye();
        state_->hosts->wire.flush(patience);
    }
    {
        std::lock_guard<std::mutex> posting(state_->posting);
        std::lock_guard<std::mutex> lock(state_->mutex);
        state_->closed = true;
        group = state_->group;
    }
    /* Now no more are posted. */
    for (const Ref<Operation> &op : state_->outstanding(false, true))
        static_cast<Message &>(*op).cancel(state_->end());
    std::string text = state_->who(rank_) + ": the group " + why;
    if (state_->sparse)
        state_->sparse->end(text);
    if (group) {
        if (engine.table()->group_free(group) == -EBUSY) {
            (void)engine.table()->group_end(group, -ECONNRESET, text.c_str());
            engine.poll();
            (void)engine.table()->group_free(group);
        }
    }
    if (state_->hosts)
        state_->hosts->stop();
    words_->stop();
    engine.poll();
    for (struct nigh_endpoint *endpoint : state_->endpoints)
        if (endpoint)
            engine.disconnect(endpoint);
}

/* ---- what c10d asks ---- */

c10::intrusive_ptr<c10d::Backend::Options> Group::getBackendOptions()
{
    auto options = c10::make_intrusive<Options>("nigh", state_->timeout);

    options->group_name = state_->name;
    options->global_ranks_in_group.assign(state_->global.begin(), state_->global.end());
    return options;
}

void Group::setTimeout(milliseconds timeout)
{
    state_->timeout = timeout;
}

void Group::setSequenceNumberForGroup()
{
    /* Each group begins at 0. */
}

uint64_t Group::getSequenceNumberForGroup()
{
    return state_->sequence.load();
}

c10d::ErrorType Group::getError()
{
    struct nigh_query_group is = {};

    if (state_->hosts && state_->hosts->status())
        return state_->hosts->status() == -ECONNRESET ? c10d::ErrorType::REMOTE_ERROR
                                                      : c10d::ErrorType::COMM_ERROR;
    std::lock_guard<std::mutex> lock(state_->mutex);

    is.size = sizeof(is);
    if (state_->closed || !state_->group || state_->engine.table()->query_group(state_->group, &is) ||
        !is.status)
        return c10d::ErrorType::SUCCESS;
    return is.status == -ECONNRESET ? c10d::ErrorType::REMOTE_ERROR : c10d::ErrorType::COMM_ERROR;
}

/* ---- arguments ---- */

milliseconds Group::limit(milliseconds given) const
{
    return given.count() > 0 ? given : state_->timeout;
}

int Group::root(int64_t rank, const char *name) const
{
    if (rank < 0 || rank >= size_)
        raise(state_->me() + ": " + name + ": root " + std::to_string(rank) + " is no rank of the group");
    return static_cast<int>(rank);
}

void Group::check_peer(int rank, const char *name) const
{
    if (rank < 0 || rank >= size_)
        raise(state_->me() + ": " + name + ": " + std::to_string(rank) + " is no rank of the group");
}

const at::Tensor &Group::one(const Tensors &tensors, const char *name) const
{
    if (tensors.size() != 1)
        raise(state_->me() + ": " + name + ": takes one tensor a rank, not " +
              std::to_string(tensors.size()));
    return tensors[0];
}

const Tensors &Group::list(const std::vector<Tensors> &lists, const char *name) const
{
    if (lists.size() != 1 || lists[0].size() != static_cast<size_t>(size_))
        raise(state_->me() + ": " + name + ": takes one list with a tensor for each of the " +
              std::to_string(size_) + " ranks, not " + std::to_string(lists.size()) + " lists" +
              (lists.size() == 1 ? " of " + std::to_string(lists[0].size()) : ""));
    return lists[0];
}

void Group::none(size_t count, const char *name, const char *what) const
{
    if (count)
        raise(state_->me() + ": " + name + ": " + what + " are given at the root alone");
}

/* ---- messages ---- */

WorkPtr Group::message(Kind kind, const char *name, c10d::OpType type, const char *title, Tensors &tensors,
                       int peer, int tag)
{
    std::string what = state_->me() + ": " + name;

    state_->check();
    const at::Tensor &tensor = one(tensors, name);
    if (peer != any_source)
        check_peer(peer, name);
    if (tag < 0)
        raise(what + ": tag " + std::to_string(tag) + " is negative");
    at::Tensor flat = kind == Kind::send ? to_read(tensor, what) : to_write(tensor, what);
    auto work = c10::make_intrusive<Work>(state_, type, title, tensors, state_->timeout);
    Ref<Message> op = make_message(state_, kind, name, peer, tag, tensor, flat);

    op->number = state_->sequence.load(std::memory_order_relaxed);
    if (site)
        op->site = site();
    op->post();
    state_->engine.poll();
    op->hold();
    work->begin(Ref<Operation>(op.get()), kind == Kind::send ? Tensors() : tensors);
    return work;
}

WorkPtr Group::send(Tensors &tensors, int to, int tag)
{
    return message(Kind::send, "send", c10d::OpType::SEND, "nigh:send", tensors, to, tag);
}

WorkPtr Group::recv(Tensors &tensors, int from, int tag)
{
    check_peer(from, "recv");
    return message(Kind::receive, "recv", c10d::OpType::RECV, "nigh:recv", tensors, from, tag);
}

WorkPtr Group::recvAnysource(Tensors &tensors, int tag)
{
    return message(Kind::receive, "recv", c10d::OpType::RECVANYSOURCE, "nigh:recvAnySource", tensors,
                   any_source, tag);
}

void Group::monitoredBarrier(const c10d::BarrierOptions &options, bool all)
{
    at::RecordFunction record(at::RecordScope::USER_SCOPE);

    if (record.isActive())
        record.before("nigh:monitored_barrier");
    state_->check();
    /* One of 0 is one of the program's, as with gloo. */
    monitored_barrier(state_, options.timeout.count() == 0 ? options.timeout : limit(options.timeout), all);
}

} // namespace nigh_torch
