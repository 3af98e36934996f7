/* SPDX-License-Identifier: BSD-3-Clause */
/* csrc/message.cc - see message.hpp. */
#include "message.hpp"
#include "stage.hpp"

#include <c10/core/ScalarType.h>

#include <cerrno>
#include <cstring>

namespace nigh_torch
{

bool Message::strict;

uint64_t immediate(int rank, at::ScalarType type)
{
    return static_cast<uint64_t>(static_cast<uint8_t>(type)) << 32 | static_cast<uint32_t>(rank);
}

Message::Message(std::shared_ptr<State> state, Kind kind, const char *name, int peer, int tag,
                 at::Tensor tensor, at::Tensor flat)
    : Operation(std::move(state), kind, name), peer_(peer), tag_(tag), bytes_(flat.nbytes()),
      tensor_(std::move(tensor)), flat_(std::move(flat))
{
}

std::string Message::describe() const
{
    std::string out = name;

    if (peer_ == any_source)
        out += " from any rank";
    else
        out += (kind == Kind::send ? " to " : " from ") + state->who(peer_);
    out += ", tag " + std::to_string(tag_) + ", " + std::to_string(bytes_) + " bytes of " +
           c10::toString(tensor_.scalar_type());
    return site.empty() ? out : out + " (" + site + ")";
}

std::string Message::waits_for() const
{
    return (peer_ == any_source ? "a message from any rank" : state->who(peer_)) + near_;
}

/* Another thread may be closing the group. To one that has left a send would never be matched. */
int Message::try_post()
{
    if (kind == Kind::send && state->has_left(peer_))
        return -ECONNRESET;
    std::lock_guard<std::mutex> posting(state->posting);

    return state->closed ? -ESHUTDOWN : post_once();
}

int Message::post_once()
{
    const struct nigh_ops *table = state->engine.table();
    void *data = bytes_ ? flat_.data_ptr() : nullptr;

    if (kind == Kind::send) {
        struct nigh_send send = {};

        send.size = sizeof(send);
        send.buffer = data;
        send.bytes = bytes_;
        send.flags = strict ? NIGH_SYNC : 0;
        send.tag = state->tag_of(tag_);
        send.imm = immediate(state->rank, tensor_.scalar_type());
        send.context = reinterpret_cast<uint64_t>(static_cast<Op *>(this));
        return table->post_send(state->endpoints[static_cast<size_t>(peer_)], &send);
    }
    struct nigh_recv receive = {};

    receive.size = sizeof(receive);
    receive.buffer = data;
    receive.bytes = bytes_;
    receive.tag = state->tag_of(tag_);
    receive.context = reinterpret_cast<uint64_t>(static_cast<Op *>(this));
    return table->post_recv(state->engine.context(),
                            peer_ == any_source ? nullptr : state->endpoints[static_cast<size_t>(peer_)],
                            &receive);
}

void Message::post()
{
    int rc;

    state->add(*this);
    expect_one();
    while ((rc = try_post()) == -EAGAIN && !state->engine.is_over())
        state->engine.poll();
    if (rc) {
        std::string what = state->me() + ": " + describe() + ": ";

        unexpect_one();
        fail(rc, what + (rc == -ESHUTDOWN                     ? state->end()
                         : rc == -ECONNRESET || rc == -EPROTO ? state->lost(peer_)
                                                              : std::strerror(-rc)));
        posted();
        raise(*this);
    }
    posted();
    if (kind == Kind::receive)
        cancel_if_left();
}

void Message::cancel_if_left()
{
    std::unique_lock<std::mutex> lock(state->mutex);
    bool alone = peer_ == any_source && state->size > 1;

    for (int member = 0; member < state->size && alone; member++)
        alone = member == state->rank || state->left[static_cast<size_t>(member)];
    if (!alone && (peer_ == any_source || !state->left[static_cast<size_t>(peer_)]))
        return;
    lock.unlock();
    cancel(alone ? "all other ranks have left the group" : state->who(peer_) + " has left the group");
}

void Message::cancel(const std::string &reason)
{
    {
        std::lock_guard<std::mutex> lock(state->mutex);
        if (why.empty())
            why = reason;
    }
    state->engine.table()->cancel_unmatched(state->engine.context(),
                                            reinterpret_cast<uint64_t>(static_cast<Op *>(this)));
}

void Message::check_received(int status, int source, uint64_t bytes, at::ScalarType type)
{
    source_ = source;
    if (status == -EMSGSIZE || bytes != bytes_)
        fail(-EMSGSIZE, state->me() + ": " + describe() + ": " + state->who(source_) + " has sent " +
                            std::to_string(bytes) + " bytes of " + c10::toString(type) +
                            ", the tensor has room for " + std::to_string(bytes_) +
                            "; both must have the same size");
    else if (type != tensor_.scalar_type())
        fail(-EPROTO, state->me() + ": " + describe() + ": " + state->who(source_) +
                          " has sent elements of " + c10::toString(type) + ", the tensor has " +
                          c10::toString(tensor_.scalar_type()));
}

bool Message::take(const struct nigh_completion &completion)
{
    int status = completion.status;

    if (kind == Kind::receive && (status == 0 || status == -EMSGSIZE)) {
        check_received(status, static_cast<int>(static_cast<uint32_t>(completion.imm)), completion.bytes,
                       static_cast<at::ScalarType>(completion.imm >> 32 & 0xff));
        return true;
    }
    if (status == 0)
        return true;
    if (status == -ECONNRESET && peer_ == any_source)
        heard_death(completion.endpoint);
    /* A process has died that is in another group: this receive goes on. */
    if (status == -ECONNRESET && peer_ == any_source && state->member_of(completion.endpoint) < 0 &&
        try_post() == 0)
        return false;
    std::string what = state->me() + ": " + describe() + ": ";

    if (status == -ECANCELED) {
        std::lock_guard<std::mutex> lock(state->mutex);
        what += why.empty() ? "it was taken back" : why;
    } else if (status == -ECONNRESET || status == -EPROTO) {
        what += state->lost(peer_ == any_source ? state->member_of(completion.endpoint) : peer_);
    } else {
        what += std::strerror(-status);
    }
    fail(status, what);
    return true;
}

void Message::land()
{
    if (kind == Kind::receive && !flat_.is_same(tensor_))
        copy_back(tensor_, flat_);
}

} // namespace nigh_torch
