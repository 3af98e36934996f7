/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * csrc/words.cc - what the members of a group tell each other beside the program's messages: that one has left, and the
 * monitored barrier. They are messages without bytes, with tags above those of c10d, which are not negative.
 */
#include "hosts.hpp"
#include "message.hpp"

#include <cerrno>
#include <cstring>
#include <map>

namespace nigh_torch
{

/* The first two differ in the lowest bit: one receive takes both. */
static const uint32_t bye_tag = 0x80000000u, stuck_tag = 0x80000001u, arrived_tag = 0x90000000u,
                      answer_tag = 0xa0000000u, number_mask = 0x0fffffffu;

static uint64_t word(const State &state, uint32_t tag)
{
    return static_cast<uint64_t>(state.tag_group) << 32 | tag;
}

/* To a rank of another host. */
static int say_far(const State &state, int member, uint32_t tag, uint64_t imm)
{
    Header header = {};

    header.tag = wire_tag(barrier_class, tag);
    header.value = imm;
    return state.hosts->wire.send(
        member, header, nullptr, [](int) {}, nullptr, Wire::Ends::at_once);
}

static int say(const State &state, int member, uint32_t tag, uint64_t imm)
{
    struct nigh_send send = {};
    std::lock_guard<std::mutex> posting(state.posting);

    if (state.closed)
        return -ESHUTDOWN;
    if (!state.endpoints[static_cast<size_t>(member)])
        return say_far(state, member, tag, imm);
    send.size = sizeof(send);
    send.flags = NIGH_INJECT | NIGH_SILENT;
    send.tag = word(state, tag);
    send.imm = imm;
    return state.engine.table()->post_send(state.endpoints[static_cast<size_t>(member)], &send);
}

static int hear(const State &state, struct nigh_endpoint *from, uint32_t tag, uint64_t ignore, Op &op)
{
    struct nigh_recv receive = {};
    std::lock_guard<std::mutex> posting(state.posting);

    if (state.closed)
        return -ESHUTDOWN;
    receive.size = sizeof(receive);
    receive.tag = word(state, tag);
    receive.ignore = ignore;
    receive.context = reinterpret_cast<uint64_t>(&op);
    return state.engine.table()->post_recv(state.engine.context(), from, &receive);
}

/* ---- who has left ---- */

static std::mutex listening_mutex;
static std::map<const Words *, std::weak_ptr<State>> listening;

Words::Words(std::shared_ptr<State> state) : Op(state->engine), state_(std::move(state))
{
}

std::string Words::describe() const
{
    return "the group's own words";
}

std::string Words::waits_for() const
{
    return "any rank";
}

int Words::listen()
{
    return hear(*state_, nullptr, bye_tag, bye_tag ^ stuck_tag, *this);
}

void Words::start()
{
    {
        std::lock_guard<std::mutex> lock(listening_mutex);
        listening[this] = state_;
    }
    expect_one();
    if (listen()) {
        unexpect_one();
        raise(state_->me() + ": no memory for a receive");
    }
}

void Words::stop()
{
    {
        std::lock_guard<std::mutex> lock(listening_mutex);
        listening.erase(this);
    }
    stopped_ = true;
    state_->engine.table()->cancel_unmatched(state_->engine.context(),
                                             reinterpret_cast<uint64_t>(static_cast<Op *>(this)));
    state_->engine.poll();
}

void Words::say_bye()
{
    for (int member = 0; member < state_->size; member++)
        if (member != state_->rank && state_->endpoints[static_cast<size_t>(member)])
            (void)say(*state_, member, bye_tag,
                      static_cast<uint32_t>(state_->rank)); /* one that is gone hears nothing */
}

bool Words::take(const struct nigh_completion &completion)
{
    if (completion.status == 0 && static_cast<uint32_t>(completion.tag) == stuck_tag)
        state_->told_stuck = completion.imm;
    else if (completion.status == 0)
        heard_bye(*state_, static_cast<int>(static_cast<uint32_t>(completion.imm)));
    else if (completion.status == -ECONNRESET)
        heard_death(completion.endpoint);
    if (completion.status == -ECANCELED || stopped_)
        return true;
    return listen() != 0;
}

void say_stuck(const State &state, int member, uint64_t serial)
{
    (void)say(state, member, stuck_tag, serial);
}

/* Of all receives from anyone, of whichever group, the table tells one of a death: all groups are to hear it. */
void heard_death(const struct nigh_endpoint *endpoint)
{
    std::vector<std::shared_ptr<State>> all;
    {
        std::lock_guard<std::mutex> lock(listening_mutex);
        for (const auto &one : listening)
            if (auto state = one.second.lock())
                all.push_back(state);
    }
    for (const auto &state : all)
        heard_bye(*state, state->member_of(endpoint));
}

/* Receives that only this member could have answered are taken back. */
void heard_bye(State &state, int member)
{
    bool all = true;

    if (member < 0 || member >= state.size)
        return;
    {
        std::lock_guard<std::mutex> lock(state.mutex);
        state.left[static_cast<size_t>(member)] = 1;
        for (int other = 0; other < state.size; other++)
            all = all && (other == state.rank || state.left[static_cast<size_t>(other)]);
    }
    for (const Ref<Operation> &op : state.outstanding(false, true)) {
        Message &message = static_cast<Message &>(*op);

        if (message.kind == Kind::receive && message.peer() == member)
            message.cancel(state.lost(member));
        else if (message.kind == Kind::receive && message.peer() == any_source && all)
            message.cancel("all other ranks have left the group");
    }
}

/* ---- the monitored barrier ---- */

namespace
{
class Word : public Op
{
  public:
    explicit Word(const State &state) : Op(state.engine), state_(state)
    {
    }
    /* The group ends: the wire ends its own, the table leaves a receive to who has posted it. */
    void look() override
    {
        if (!far && state_.is_closed())
            engine().table()->cancel_unmatched(engine().context(),
                                               reinterpret_cast<uint64_t>(static_cast<Op *>(this)));
    }
    std::string describe() const override
    {
        return "monitored_barrier";
    }
    std::string waits_for() const override
    {
        return "a rank";
    }
    uint64_t imm = 0;
    Wire::Receipt far; /* of a rank of another host */

  protected:
    bool take(const struct nigh_completion &completion) override
    {
        imm = completion.imm;
        if (completion.status)
            fail(completion.status, std::strerror(-completion.status));
        return true;
    }

  private:
    const State &state_; /* of who waits: not read by one that is only held */
};

void listen_far(State &state, int member, uint32_t tag, Ref<Word> &word)
{
    Word *raw = word.get();
    Hosts *hosts = state.hosts.get();

    word->far = std::make_shared<Wire::Receive>();
    word->far->peer = member;
    word->far->tag = wire_tag(barrier_class, tag);
    word->far->done = [raw, hosts](int error, int, const Header &header) {
        raw->imm = header.value;
        if (error)
            raw->fail(error, std::strerror(-error));
        hosts->finish(*raw);
    };
    word->expect_one();
    hosts->wire.receive(word->far);
    word->posted();
}

Ref<Word> listen_for(State &state, int member, uint32_t tag)
{
    Ref<Word> word(new Word(state));
    int rc;

    if (!state.endpoints[static_cast<size_t>(member)]) {
        listen_far(state, member, tag, word);
        return word;
    }
    word->expect_one();
    rc = hear(state, state.endpoints[static_cast<size_t>(member)], tag, 0, *word);
    if (rc) {
        word->unexpect_one();
        word->fail(rc, std::strerror(-rc));
    }
    word->posted();
    return word;
}

bool has_come(State &state, Word &word, Clock::time_point until)
{
    if (word.far ? state.hosts->await(word, until) : state.engine.wait(word, until))
        return word.error() == 0;
    if (word.far) {
        if (state.hosts->wire.withdraw(word.far)) {
            word.fail(-ECANCELED, std::strerror(ECANCELED));
            state.hosts->finish(word);
        }
        return word.is_done() && word.error() == 0;
    }
    state.engine.table()->cancel_unmatched(state.engine.context(),
                                           reinterpret_cast<uint64_t>(static_cast<Op *>(&word)));
    state.engine.poll();
    return word.is_done() && word.error() == 0;
}

void raise_if_closed(const State &state)
{
    if (state.is_closed())
        raise(state.me() + ": monitored_barrier: " + state.end());
}

void gather_all(State &state, uint32_t number, std::chrono::milliseconds timeout, bool all)
{
    Clock::time_point until = Clock::now() + timeout;
    std::vector<Ref<Word>> words(1);
    std::vector<int> missing;

    for (int member = 1; member < state.size; member++)
        words.push_back(listen_for(state, member, arrived_tag | number));
    for (int member = 1; member < state.size; member++) {
        /* The first that lacks is enough where not all are asked for: the others are only taken back. */
        bool waits = (missing.empty() || all) && !state.is_closed();
        Clock::time_point limit = waits ? until : Clock::now();

        if (!has_come(state, *words[static_cast<size_t>(member)], limit) && (all || missing.empty()))
            missing.push_back(member);
    }
    for (int member = 1; member < state.size; member++)
        (void)say(state, member, answer_tag | number, missing.empty() ? 0 : 1);
    if (missing.empty())
        return;
    raise_if_closed(state);
    std::string named = join(missing);
    named[0] = 'R';
    raise(
        "[Rank 0]: " + named + " failed to pass monitoredBarrier in " + std::to_string(timeout.count()) +
        " ms (" + state.me() + ")" +
        (timeout.count() == 0 ? "; Rank 0 timed out in monitoredBarrier at once, as its timeout is 0" : ""));
}

void ask(State &state, uint32_t number, std::chrono::milliseconds timeout)
{
    std::string me = "Rank " + std::to_string(state.rank);

    if (say(state, 0, arrived_tag | number, 0)) {
        raise_if_closed(state);
        raise(me + " cannot reach rank 0 in monitoredBarrier: " + state.lost(0));
    }
    Ref<Word> answer = listen_for(state, 0, answer_tag | number);
    if (!has_come(state, *answer, Clock::now() + timeout) || answer->imm) {
        raise_if_closed(state);
        raise(me + " successfully reached monitoredBarrier, but received errors while waiting for send/recv "
                   "from rank 0. "
                   "Please check rank 0 logs for faulty rank.");
    }
}
} // namespace

void monitored_barrier(const std::shared_ptr<State> &state, std::chrono::milliseconds timeout, bool all)
{
    uint32_t number = static_cast<uint32_t>(state->sequence.fetch_add(1) + 1) & number_mask;

    if (state->rank == 0)
        gather_all(*state, number, timeout, all);
    else
        ask(*state, number, timeout);
}

/* ---- what nobody has received ---- */

namespace
{
class Dropped : public Word
{
  public:
    using Word::Word;

  protected:
    bool take(const struct nigh_completion &) override
    {
        return true;
    }
};
} // namespace

std::vector<std::string> drain(State &state)
{
    const struct nigh_ops *table = state.engine.table();
    std::vector<std::string> out;

    for (;;) {
        struct nigh_completion found = {};
        struct nigh_message *message;
        struct nigh_recv receive = {};

        if (table->probe(state.engine.context(), nullptr, word(state, 0), 0xffffffffu, 0, &found, &message))
            return out;
        Ref<Dropped> op(new Dropped(state));
        receive.size = sizeof(receive);
        receive.context = reinterpret_cast<uint64_t>(static_cast<Op *>(op.get()));
        op->expect_one();
        if (table->claim(state.engine.context(), message, &receive)) {
            op->unexpect_one();
            return out;
        }
        op->posted();
        uint32_t tag = static_cast<uint32_t>(found.tag);
        if (tag < bye_tag)
            out.push_back("a message from " + state.who(static_cast<int>(static_cast<uint32_t>(found.imm))) +
                          ", tag " + std::to_string(tag) + ", " + std::to_string(found.bytes) +
                          " bytes, was never received");
    }
}

} // namespace nigh_torch
