/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * csrc/wire.cc - see wire.hpp. A thread for each peer has a receive posted at gloo for a header with up to 32 KiB of data, so a
 * short message is one message of gloo. A longer one is offered first; once it is accepted its bytes come behind a header of
 * their own. One more thread waits until gloo has written what was sent, in order. A sender that is ahead is bounded by credit:
 * docs/rationale/torch.md, "More than one host".
 */
#include "wire.hpp"

#include <ATen/ATen.h>

#include <cerrno>
#include <cstring>

namespace nigh_torch
{

static const int header_tag = 0, bytes_tag = 1;
/* gloo's own limit is the group's, and ends all connections of ranks that are silent for so long. */
static const std::chrono::milliseconds no_limit = std::chrono::hours(24 * 365);

static at::Tensor view(const void *data, uint64_t bytes)
{
    return at::from_blob(const_cast<void *>(data), {static_cast<int64_t>(bytes)},
                         at::TensorOptions().dtype(at::kByte));
}

Wire::Wire(c10::intrusive_ptr<c10d::Backend> gloo, std::vector<int> peers)
    : gloo_(std::move(gloo)), peers_(std::move(peers))
{
}

/* In a forked child there are no threads to be joined. */
Wire::~Wire()
{
    if (!stopping_)
        new std::vector<std::thread>(std::move(threads_));
}

void Wire::start()
{
    for (int peer : peers_)
        threads_.emplace_back([this, peer] { listen(peer); });
    threads_.emplace_back([this] { write(); });
}

/* ---- sending ---- */

int Wire::put(int peer, const Header &header, const void *data, uint64_t bytes)
{
    std::lock_guard<std::mutex> lock(gloo_mutex_);
    return put_locked(peer, header, data, bytes);
}

int Wire::put_locked(int peer, const Header &header, const void *data, uint64_t bytes)
{
    if (stopping_ || gone_.count(peer))
        return stopping_ ? -ECANCELED : -ECONNRESET;
    at::Tensor whole =
        at::empty({static_cast<int64_t>(sizeof(header) + bytes)}, at::TensorOptions().dtype(at::kByte));
    char *at = static_cast<char *>(whole.data_ptr());
    std::vector<at::Tensor> tensors = {whole};

    Header first = header;

    first.credit = std::exchange(owed_[peer], 0);
    std::memcpy(at, &first, sizeof(first));
    if (bytes)
        std::memcpy(at + sizeof(first), data, bytes);
    try {
        written_.push_back({gloo_->send(tensors, peer, header_tag), whole, peer});
    } catch (const std::exception &) {
        return -ECONNRESET; /* its listener says why */
    }
    written_cv_.notify_all();
    return 0;
}

int Wire::put_eager(int peer, Header &header, const void *data, Ends ends, bool &has_room)
{
    std::lock_guard<std::mutex> lock(gloo_mutex_);
    uint64_t &used = used_[peer], wanted = header.bytes + room_each;
    int rc;

    has_room = header.bytes <= eager_max && (ends == Ends::at_once || used + wanted <= room);
    if (!has_room)
        return 0;
    header.kind = eager;
    rc = put_locked(peer, header, data, header.bytes);
    if (!rc)
        used += wanted;
    return rc;
}

int Wire::send(int peer, Header header, const void *data, Done done, uint64_t *id, Ends ends)
{
    bool has_room = false;
    int rc = 0;

    header.magic = magic;
    if (id)
        *id = 0;
    if (ends != Ends::when_taken)
        rc = put_eager(peer, header, data, ends, has_room);
    if (has_room) {
        if (!rc)
            done(0);
        return rc;
    }
    {
        std::lock_guard<std::mutex> lock(mutex_);
        if (lost_.count(peer))
            return -ECONNRESET;
        header.kind = offer;
        header.id = next_++;
        offers_[header.id] = {peer, data, header.bytes, std::move(done), {}};
    }
    rc = put(peer, header, nullptr, 0);
    if (rc && !retract(header.id))
        return 0;
    if (id)
        *id = header.id;
    return rc;
}

void Wire::say(int peer, uint32_t kind, uint64_t value, const std::string &text, uint64_t id)
{
    Header header = {};

    header.magic = magic;
    header.kind = kind;
    header.value = value;
    header.id = id;
    header.bytes = std::min<uint64_t>(text.size(), eager_max);
    (void)put(peer, header, text.data(), header.bytes); /* one that is gone hears nothing */
}

/* The thread that waits until gloo has written. */
void Wire::write()
{
    std::unique_lock<std::mutex> lock(gloo_mutex_);

    for (;;) {
        written_cv_.wait(lock, [this] { return stopping_ || !written_.empty(); });
        if (written_.empty())
            return;
        Written one = std::move(written_.front());
        bool is_of_use = !stopping_ && !gone_.count(one.peer);

        written_.pop_front();
        writing_ = one.work;
        writing_to_ = one.peer;
        lock.unlock();
        try {
            if (is_of_use)
                one.work->wait(no_limit);
        } catch (const std::exception &) {
            /* its listener says why */
        }
        lock.lock();
        writing_.reset();
        one.work.reset();
        written_cv_.notify_all();
    }
}

/* gloo does not tell of what it cannot write to one that has closed the connection. */
void Wire::leave_unwritten(int peer)
{
    std::lock_guard<std::mutex> lock(gloo_mutex_);

    gone_.insert(peer);
    if (writing_ && writing_to_ == peer)
        writing_->abort();
}

void Wire::flush(std::chrono::milliseconds patience)
{
    std::unique_lock<std::mutex> lock(gloo_mutex_);
    written_cv_.wait_for(lock, patience, [this] { return written_.empty() && !writing_; });
}

/* ---- listening ---- */

Wire::WorkOf Wire::post_receive(int peer, at::Tensor &buffer, int tag)
{
    std::vector<at::Tensor> tensors = {buffer};
    std::lock_guard<std::mutex> lock(gloo_mutex_);

    if (stopping_)
        return {};
    return listening_[peer] = gloo_->recv(tensors, peer, tag);
}

/* False: the end. */
bool Wire::hear_once(int peer, at::Tensor &buffer)
{
    WorkOf work = post_receive(peer, buffer, header_tag);
    const char *data = static_cast<const char *>(buffer.data_ptr());
    Header header;

    if (!work || !work->wait(no_limit))
        return false;
    std::memcpy(&header, data, sizeof(header));
    if (header.magic != magic || (header.kind != offer && header.bytes > eager_max))
        throw std::runtime_error("what it sends is not nigh_torch's");
    if (header.credit)
        take_credit(peer, header.credit);
    handle(peer, header, data + sizeof(header));
    return true;
}

void Wire::listen(int peer)
{
    at::Tensor buffer =
        at::empty({static_cast<int64_t>(sizeof(Header) + eager_max)}, at::TensorOptions().dtype(at::kByte));

    try {
        while (hear_once(peer, buffer)) {
        }
    } catch (const std::exception &problem) {
        std::string text = problem.what();

        end_of(peer, text.substr(0, text.find('\n')));
    }
}

void Wire::handle(int peer, const Header &header, const char *data)
{
    switch (header.kind) {
    case eager:
    case offer:
        if (arrived)
            arrived(peer, header);
        arrive(peer, header, data);
        return;
    case accept:
        answer(peer, header);
        return;
    case bytes:
        take_bytes(peer, header.value);
        return;
    case got:
        acknowledged(peer, header.id);
        return;
    case credit:
        return;
    case retracted: {
        std::unique_lock<std::mutex> lock(mutex_);
        auto found = incoming_.find(header.value);
        if (found == incoming_.end() || found->second.from != peer)
            return;
        Incoming one = std::move(found->second);
        incoming_.erase(found);
        lock.unlock();
        one.receive->done(-ECONNRESET, peer, one.header);
        return;
    }
    default:
        heard(peer, header, std::string(data, header.bytes));
    }
}

/* An offer of ours is accepted, or dropped. */
void Wire::answer(int peer, const Header &header)
{
    std::unique_lock<std::mutex> lock(mutex_);
    auto found = offers_.find(header.id);
    int rc = 0;

    if (found == offers_.end() || found->second.peer != peer) {
        Header follows = {};

        lock.unlock();
        follows.magic = magic;
        follows.kind = retracted;
        follows.value = header.value;
        (void)put(peer, follows, nullptr, 0);
        return;
    }
    Offer one = std::move(found->second);
    offers_.erase(found);
    if (header.value)
        rc = send_bytes(one, header);
    if (header.value && !rc) {
        sent_[header.id] = std::move(one);
        return;
    }
    lock.unlock();
    one.done(rc);
}

/* Over once the receiver has said that it has them: gloo's own word may not come. */
int Wire::send_bytes(Offer &offer, const Header &header)
{
    std::vector<at::Tensor> tensors = {view(offer.data, offer.bytes)};
    std::lock_guard<std::mutex> lock(gloo_mutex_);
    Header follows = {};
    int rc;

    follows.magic = magic;
    follows.kind = bytes;
    follows.value = header.value;
    rc = put_locked(offer.peer, follows, nullptr, 0);
    if (rc)
        return rc;
    try {
        offer.work = gloo_->send(tensors, offer.peer, bytes_tag);
    } catch (const std::exception &) {
        return -ECONNRESET;
    }
    return 0;
}

void Wire::acknowledged(int peer, uint64_t id)
{
    std::unique_lock<std::mutex> lock(mutex_);
    auto found = sent_.find(id);

    if (found == sent_.end() || found->second.peer != peer)
        return;
    Offer one = std::move(found->second);
    sent_.erase(found);
    lock.unlock();
    one.work.reset();
    one.done(0);
}

/* Afterwards gloo knows nothing of the memory. Throws if the connection has ended. */
int Wire::receive_bytes(int peer, at::Tensor into)
{
    struct Forgets {
        ~Forgets()
        {
            std::lock_guard<std::mutex> lock(wire.gloo_mutex_);
            wire.listening_[peer].reset();
        }
        Wire &wire;
        int peer;
    } forgets = {*this, peer};
    WorkOf work = post_receive(peer, into, bytes_tag);

    return work && work->wait(no_limit) ? 0 : -ECANCELED;
}

void Wire::take_bytes(int peer, uint64_t receive)
{
    std::unique_lock<std::mutex> lock(mutex_);
    auto found = incoming_.find(receive);
    Header reply = {};
    int rc;

    if (found == incoming_.end() || found->second.from != peer)
        throw std::runtime_error("what it sends was not accepted");
    Incoming one = std::move(found->second);
    incoming_.erase(found);
    lock.unlock();
    try {
        rc = receive_bytes(peer, view(one.receive->data, one.header.bytes));
    } catch (const std::exception &) {
        one.receive->done(-ECONNRESET, peer, one.header);
        throw;
    }
    reply.magic = magic;
    reply.kind = got;
    reply.id = one.header.id;
    if (!rc)
        (void)put(peer, reply, nullptr, 0);
    one.receive->done(rc, peer, one.header);
}

/* ---- ends ---- */

bool Wire::is_lost(int peer) const
{
    std::lock_guard<std::mutex> lock(mutex_);
    return lost_.count(peer) != 0;
}

/* Of one peer, or of all. What came before stays to be received; offers that came are of no use. */
void Wire::fail_all(int peer, int error)
{
    auto is_meant = [peer](int of) { return peer < 0 || of == peer; };
    std::vector<std::function<void()>> ends;
    std::unique_lock<std::mutex> lock(mutex_);

    if (peer < 0)
        over_ = error;
    for (auto at = posted_.begin(); at != posted_.end();) {
        Receipt receive = *at;

        if (!is_meant(receive->peer)) {
            ++at;
            continue;
        }
        at = posted_.erase(at);
        if (!receive->claim || receive->claim())
            ends.push_back([receive, error] { receive->done(error, receive->peer, Header()); });
    }
    for (auto *offers : {&offers_, &sent_})
        for (auto at = offers->begin(); at != offers->end();)
            if (is_meant(at->second.peer)) {
                ends.push_back([done = std::move(at->second.done), error] { done(error); });
                at = offers->erase(at); /* with what gloo has of it */
            } else {
                ++at;
            }
    for (auto at = incoming_.begin(); at != incoming_.end();)
        if (is_meant(at->second.from)) {
            ends.push_back([one = at->second, error] { one.receive->done(error, one.from, one.header); });
            at = incoming_.erase(at);
        } else {
            ++at;
        }
    unexpected_.remove_if(
        [&](const Unexpected &one) { return is_meant(one.from) && one.header.kind == offer; });
    lock.unlock();
    for (auto &end : ends)
        end();
}

void Wire::forget(int peer)
{
    leave_unwritten(peer);
    {
        std::lock_guard<std::mutex> lock(mutex_);
        lost_.insert(peer);
    }
    fail_all(peer, -ECONNRESET);
}

void Wire::end_of(int peer, const std::string &why)
{
    {
        std::lock_guard<std::mutex> lock(gloo_mutex_);
        if (stopping_)
            return;
    }
    {
        std::lock_guard<std::mutex> lock(mutex_);
        if (!lost_.insert(peer).second)
            return; /* it has said so itself */
    }
    leave_unwritten(peer);
    lost(peer, why);
    fail_all(peer, -ECONNRESET);
}

void Wire::stop()
{
    {
        std::lock_guard<std::mutex> lock(gloo_mutex_);
        if (stopping_)
            return;
        stopping_ = true;
        for (auto &one : listening_)
            if (one.second)
                one.second->abort();
        if (writing_)
            writing_->abort();
        written_cv_.notify_all();
    }
    for (std::thread &thread : threads_)
        thread.join();
    fail_all(-1, -ECANCELED);
    listening_.clear();
}

} // namespace nigh_torch
