/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * csrc/stall.cc - does a message wait in vain? A process whose only thread waits for one says so in its status line. Lines that
 * lead round, of which none changes while each process has looked for messages once more, are a deadlock
 * (docs/memory-model.md, "What two readings prove"). Messages of one group are followed.
 */
#include "message.hpp"

#include <cerrno>
#include <cstdio>
#include <thread>

namespace nigh_torch
{

using std::chrono::milliseconds;

/* For the answers to nudges; and how long the finder stays, so that the others find the same. */
static const milliseconds proof_time(400), stay_time(1500);

namespace
{
struct Line {
    int member;
    struct nigh_note note;
    uint64_t nudge;
};
} // namespace

static uint32_t note_op(Kind kind)
{
    return kind == Kind::send ? NIGH_NOTE_OP_SEND : NIGH_NOTE_OP_RECV;
}

/* Shows that this process waits for the message, once. */
void Message::show_waiting()
{
    struct nigh_note note = {};

    note.size = sizeof(note);
    note.state = NIGH_NOTE_BLOCKED;
    note.op = note_op(kind);
    note.group = state->tag_group;
    note.peer = static_cast<uint32_t>(peer_);
    note.requests = 1;
    note.tag = static_cast<uint64_t>(tag_);
    note.bytes = bytes_;
    note.since_ns = static_cast<uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count());
    shown_ = state->engine.table()->note(state->engine.context(), &note) == 0;
}

void Message::look_away()
{
    struct nigh_note note = {};

    if (!shown_)
        return;
    shown_ = false;
    stuck_since_ = Clock::time_point();
    note.size = sizeof(note);
    note.state = NIGH_NOTE_RUNNING;
    note.peer = NIGH_RANK_NONE;
    (void)state->engine.table()->note(state->engine.context(), &note);
}

static bool read_line(const State &state, int member, struct nigh_note &out)
{
    uint64_t bytes = sizeof(out);
    std::lock_guard<std::mutex> lock(state.mutex);

    return !state.closed && state.endpoints[static_cast<size_t>(member)] &&
           state.engine.table()->query(state.engine.context(), state.endpoints[static_cast<size_t>(member)],
                                       NIGH_QUERY_NOTE, &out, &bytes) == 0;
}

/* From this process along what each waits for, back to it. Empty: it does not lead back. */
static std::vector<Line> circle(const State &state)
{
    std::vector<Line> lines;
    int member = state.rank;

    do {
        Line line = {member, {}, 0};

        if (lines.size() > static_cast<size_t>(state.size) || !read_line(state, member, line.note) ||
            line.note.state != NIGH_NOTE_BLOCKED || line.note.group != state.tag_group ||
            line.note.peer >= static_cast<uint32_t>(state.size))
            return {};
        lines.push_back(line);
        member = static_cast<int>(line.note.peer);
    } while (member != state.rank);
    return lines;
}

static bool nudge(const State &state, Line &line)
{
    std::lock_guard<std::mutex> lock(state.mutex);

    return !state.closed &&
           state.engine.table()->nudge(state.endpoints[static_cast<size_t>(line.member)], &line.nudge) == 0;
}

static bool is_proved(const State &state, std::vector<Line> &lines)
{
    Clock::time_point until = Clock::now() + proof_time;
    bool all = false;

    for (Line &line : lines)
        if (!nudge(state, line))
            return false;
    while (!all && Clock::now() < until) {
        all = true;
        for (const Line &line : lines) {
            struct nigh_note now;

            if (!read_line(state, line.member, now) || now.serial != line.note.serial)
                return false;
            all = all && now.checked >= line.nudge;
        }
        if (!all) {
            state.engine.poll();
            std::this_thread::sleep_for(milliseconds(1));
        }
    }
    return all;
}

static std::string text_of(const State &state, int member, bool sends, uint64_t bytes, int peer, uint64_t tag)
{
    return state.who(member) + (sends ? " sends " : " receives ") + std::to_string(bytes) +
           (sends ? " bytes to " : " bytes from ") + state.who(peer) + ", tag " + std::to_string(tag);
}

static std::string text_of(const State &state, const std::vector<Line> &lines)
{
    std::string out;

    if (lines.empty())
        return "another rank has found that";
    for (const Line &line : lines)
        out += (out.empty() ? "" : "; ") + text_of(state, line.member, line.note.op == NIGH_NOTE_OP_SEND,
                                                   line.note.bytes, static_cast<int>(line.note.peer),
                                                   line.note.tag);
    return out;
}

std::string Message::what_it_does() const
{
    return text_of(*state, state->rank, kind == Kind::send, bytes_, peer_, static_cast<uint64_t>(tag_));
}

std::string Message::in_vain(const std::string &who_waits) const
{
    return state->me() + ": " + describe() +
           ": these ranks wait for each other, and none can go on: " + who_waits +
           ". Let one of them use isend or irecv, or call in the other order. This one stays under way";
}

/* Another rank has proved it, of this wait. */
bool Message::is_told()
{
    uint64_t serial = state->told_stuck.exchange(0);
    struct nigh_note note;

    return serial && read_line(*state, state->rank, note) && note.serial == serial;
}

/* Also when its message goes on after all, as another rank has been told first and has received it. */
void Message::raise_if_stuck()
{
    std::string found;

    found.swap(stuck_);
    if (found.empty())
        return;
    look_away();
    raise(found);
}

/* A rank that goes on by the clock, or of which another thread may act, is in no deadlock. */
void Message::look_for_circle()
{
    if (peer_ == any_source || by_clock || !state->engine.waits_alone())
        return;
    if (!shown_)
        show_waiting();
    bool told = is_told();
    if (stuck_since_ != Clock::time_point() && !told) {
        if (Clock::now() - stuck_since_ >= stay_time)
            raise_if_stuck();
        return;
    }
    std::vector<Line> lines = circle(*state);
    if (!told && (lines.empty() || !is_proved(*state, lines)))
        return;
    for (const Line &line : lines)
        if (!told && line.member != state->rank)
            say_stuck(*state, line.member, line.note.serial);
    stuck_since_ = Clock::now();
    stuck_ = in_vain(text_of(*state, lines));
    if (told)
        raise_if_stuck();
}

/* What a receive that nothing matches is near to: a message of the same group, of another rank or tag. */
void Message::tell_near()
{
    struct nigh_query_message found[32];
    uint64_t bytes = sizeof(found);

    if (kind != Kind::receive || told_ ||
        state->engine.table()->query(state->engine.context(), nullptr, NIGH_QUERY_UNEXPECTED, found, &bytes))
        return;
    for (uint64_t i = 0; i < bytes / sizeof(found[0]); i++) {
        int tag = static_cast<int>(static_cast<uint32_t>(found[i].tag));
        int sender = static_cast<int>(static_cast<uint32_t>(found[i].imm));

        if (found[i].tag >> 32 != state->tag_group || tag < 0 || found[i].tclass)
            continue;
        near_ = "; unmatched is a message from " + state->who(sender) + ", tag " + std::to_string(tag) +
                ", " + std::to_string(found[i].bytes) + " bytes";
        std::fprintf(stderr, "%s: %s has no message yet%s\n", state->me().c_str(), describe().c_str(),
                     near_.c_str());
        told_ = true;
        return;
    }
}

/* A published send cannot be taken back: its wait ends alone. What its receiver did before it left has been seen by the
 * second look. */
void Message::look_for_end()
{
    bool closed, gone = kind == Kind::send && state->has_left(peer_);
    {
        std::lock_guard<std::mutex> lock(state->mutex);
        closed = state->closed;
    }
    if ((closed || gone) && seen_left_)
        raise(state->me() + ": " + describe() + ": " + (closed ? state->end() : state->lost(peer_)) +
              ". It stays under way, and its tensor in use");
    seen_left_ = closed || gone;
}

void Message::look()
{
    look_for_end();
    tell_near();
    look_for_circle();
}

} // namespace nigh_torch
