/* SPDX-License-Identifier: BSD-3-Clause */
/* csrc/wire_match.cc - see wire.hpp. Messages that have come and receives: which takes which, and the room for those that wait. */
#include "wire.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace nigh_torch
{

/* ---- credit ---- */

void Wire::take_credit(int peer, uint64_t bytes)
{
    std::lock_guard<std::mutex> lock(gloo_mutex_);
    uint64_t &used = used_[peer];

    used -= std::min(used, bytes);
}

/* It goes with the next header to that peer. One that gets none for long gets a message of its own. */
void Wire::give_credit(int peer, uint64_t bytes)
{
    std::lock_guard<std::mutex> lock(gloo_mutex_);
    Header header = {};

    owed_[peer] += bytes;
    if (owed_[peer] < room / 4)
        return;
    header.magic = magic;
    header.kind = credit;
    (void)put_locked(peer, header, nullptr, 0); /* one that is gone needs none */
}

bool Wire::meets(const Receive &receive, int from, uint64_t tag)
{
    return receive.tag == tag && (receive.peer < 0 || receive.peer == from);
}

void Wire::arrive(int peer, const Header &header, const char *data)
{
    std::unique_lock<std::mutex> lock(mutex_);

    for (auto at = posted_.begin(); at != posted_.end();) {
        Receipt receive = *at;

        if (!meets(*receive, peer, header.tag)) {
            ++at;
            continue;
        }
        at = posted_.erase(at);
        if (receive->claim && !receive->claim())
            continue; /* it has met another message */
        lock.unlock();
        deliver(receive, peer, header, data);
        return;
    }
    unexpected_.push_back(
        {peer, header,
         header.kind == eager ? std::vector<char>(data, data + header.bytes) : std::vector<char>()});
}

void Wire::deliver(const Receipt &receive, int from, const Header &header, const char *data)
{
    Header reply = {};

    if (header.kind == eager) {
        if (header.bytes && header.bytes <= receive->room)
            std::memcpy(receive->data, data, header.bytes);
        give_credit(from, header.bytes + room_each);
        receive->done(0, from, header);
        return;
    }
    reply.magic = magic;
    reply.kind = accept;
    reply.id = header.id;
    if (header.bytes && header.bytes <= receive->room) {
        std::lock_guard<std::mutex> lock(mutex_);
        reply.value = next_++;
        incoming_[reply.value] = {from, header, receive};
    }
    int rc = put(from, reply, nullptr, 0);
    if (!reply.value || rc) {
        std::unique_lock<std::mutex> lock(mutex_);
        if (reply.value && !incoming_.erase(reply.value))
            return;
        lock.unlock();
        receive->done(rc, from, header);
    }
}

/* ---- receiving ---- */

void Wire::receive(const Receipt &receive)
{
    std::unique_lock<std::mutex> lock(mutex_);

    for (auto at = unexpected_.begin(); at != unexpected_.end(); ++at) {
        if (!meets(*receive, at->from, receive->tag) || at->header.tag != receive->tag)
            continue;
        if (receive->claim && !receive->claim())
            return; /* it has met another message */
        Unexpected one = std::move(*at);
        unexpected_.erase(at);
        lock.unlock();
        deliver(receive, one.from, one.header, one.data.data());
        return;
    }
    int error = over_ ? over_ : receive->peer >= 0 && lost_.count(receive->peer) ? -ECONNRESET : 0;

    if (!error) {
        posted_.push_back(receive);
        return;
    }
    if (receive->claim && !receive->claim())
        return;
    lock.unlock();
    receive->done(error, receive->peer, Header());
}

bool Wire::withdraw(const Receipt &receive)
{
    std::lock_guard<std::mutex> lock(mutex_);

    for (auto at = posted_.begin(); at != posted_.end(); ++at)
        if (*at == receive) {
            posted_.erase(at);
            return true;
        }
    return false;
}

bool Wire::retract(uint64_t id)
{
    std::lock_guard<std::mutex> lock(mutex_);
    return offers_.erase(id) != 0;
}

bool Wire::is_posted(const Receipt &receive) const
{
    std::lock_guard<std::mutex> lock(mutex_);
    return std::find(posted_.begin(), posted_.end(), receive) != posted_.end();
}

bool Wire::is_offered(uint64_t id) const
{
    std::lock_guard<std::mutex> lock(mutex_);
    return offers_.count(id) != 0;
}

std::vector<std::pair<int, Header>> Wire::unmatched() const
{
    std::vector<std::pair<int, Header>> out;
    std::lock_guard<std::mutex> lock(mutex_);

    for (const Unexpected &one : unexpected_)
        out.emplace_back(one.from, one.header);
    return out;
}

} // namespace nigh_torch
