/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * csrc/hosts_stall.cc - two ranks of different hosts that wait for each other's messages. What a rank sends another arrives in
 * order, so each answer is behind all that its sender had sent: docs/rationale/torch.md, "Deadlocks".
 */
#include "hosts.hpp"
#include "remote.hpp"

namespace nigh_torch
{

/* Called every now and then by the thread that waits, which is all that its program has. */
void Hosts::show_waiting(RemoteMessage &message)
{
    uint64_t serial;
    {
        std::lock_guard<std::mutex> lock(mutex_);
        if (waiting_.message != &message)
            waiting_ = {&message, ++waits_, message.peer(), message.what_it_does(), ""};
        serial = waiting_.serial;
    }
    say_waits(message.peer(), waits, serial, 0);
}

std::string Hosts::stop_waiting(const RemoteMessage &message, bool if_proved)
{
    std::lock_guard<std::mutex> lock(mutex_);
    std::string proof;

    if (waiting_.message != &message || (if_proved && waiting_.proof.empty()))
        return "";
    proof.swap(waiting_.proof);
    waiting_ = Waiting();
    return proof;
}

bool Hosts::is_stuck(const Op &op) const
{
    return static_cast<const Op *>(waiting_.message) == &op && !waiting_.proof.empty();
}

void Hosts::say_waits(int peer, uint32_t kind, uint64_t mine, uint64_t theirs, const std::string &text)
{
    wire.say(peer, kind, mine, text, theirs);
}

/* The serial and the text of this rank's wait for that peer, if it has met nothing yet. */
bool Hosts::waits_for(int peer, uint64_t &serial, std::string &text)
{
    std::lock_guard<std::mutex> lock(mutex_);

    if (!waiting_.message || waiting_.peer != peer || !waiting_.message->is_unmatched())
        return false;
    serial = waiting_.serial;
    text = waiting_.text;
    return true;
}

void Hosts::prove(int peer, uint64_t serial, const std::string &theirs)
{
    std::lock_guard<std::mutex> lock(mutex_);

    if (!waiting_.message || waiting_.peer != peer || waiting_.serial != serial)
        return;
    waiting_.proof = waiting_.text + "; " + theirs;
    cv_.notify_all();
}

/* One says that it waits, the other one that it does, too. The first asks whether that is still so behind all that it had sent
 * until it heard of it. If it is, both wait in vain. */
void Hosts::heard_waits(int from, const Header &header, const std::string &text)
{
    uint64_t serial;
    std::string mine;

    if (!waits_for(from, serial, mine))
        return;
    if (header.kind != waits && header.id != serial)
        return; /* of a wait that is over */
    switch (header.kind) {
    case waits:
        return say_waits(from, waits_too, serial, header.value, mine);
    case waits_too:
        return say_waits(from, still, serial, header.value);
    case still:
        return say_waits(from, proved, serial, header.value, mine);
    case proved:
        say_waits(from, stuck, serial, header.value, mine);
        return prove(from, serial, text);
    case stuck:
        return prove(from, serial, text);
    default:
        return;
    }
}

} // namespace nigh_torch
