/* SPDX-License-Identifier: BSD-3-Clause */
/* csrc/remote.cc - see remote.hpp. */
#include "remote.hpp"

#include <c10/core/ScalarType.h>

#include <cerrno>
#include <cstring>

namespace nigh_torch
{

Ref<Message> make_message(const std::shared_ptr<State> &state, Kind kind, const char *name, int peer, int tag,
                          const at::Tensor &tensor, const at::Tensor &flat)
{
    if (!state->hosts || (peer != any_source && state->hosts->is_here(peer)))
        return Ref<Message>(new Message(state, kind, name, peer, tag, tensor, flat));
    if (peer == any_source)
        return Ref<Message>(new AnyMessage(state, kind, name, peer, tag, tensor, flat));
    return Ref<Message>(new RemoteMessage(state, kind, name, peer, tag, tensor, flat));
}

/* ---- by the wire ---- */

void RemoteMessage::post()
{
    state->add(*this);
    if (kind == Kind::send) {
        post_send();
    } else {
        post_receive();
        posted();
        cancel_if_left();
    }
    if (is_done() && error() && kind == Kind::send)
        raise(*this);
}

void RemoteMessage::post_send()
{
    Hosts &hosts = *state->hosts;
    Header header = {};
    int rc = -ESHUTDOWN;

    header.tag = tag();
    header.bytes = bytes_;
    header.value = immediate(state->rank, tensor_.scalar_type());
    expect_one();
    {
        std::lock_guard<std::mutex> posting(state->posting);
        if (!state->closed)
            rc = state->has_left(peer_)
                     ? -ECONNRESET
                     : hosts.wire.send(
                           peer_, header, bytes_ ? flat_.data_ptr() : nullptr,
                           [this](int error) { take_remote(error, peer_, Header()); }, &offer_,
                           strict ? Wire::Ends::when_taken : Wire::Ends::with_room);
    }
    if (rc) {
        unexpect_one();
        fail(rc, state->me() + ": " + describe() + ": " +
                     (rc == -ECONNRESET ? state->lost(peer_) : state->end()));
    }
    posted();
}

void RemoteMessage::post_receive()
{
    receive_ = std::make_shared<Wire::Receive>();
    receive_->peer = peer_;
    receive_->tag = tag();
    receive_->data = bytes_ ? flat_.data_ptr() : nullptr;
    receive_->room = bytes_;
    receive_->done = [this](int error, int from, const Header &header) { take_remote(error, from, header); };
    expect_one();
    state->hosts->wire.receive(receive_);
}

void RemoteMessage::take_remote(int error, int from, const Header &header)
{
    if (!error && kind == Kind::receive)
        check_received(0, from, header.bytes, static_cast<at::ScalarType>(header.value >> 32 & 0xff));
    else if (error)
        fail(error, state->me() + ": " + describe() + ": " +
                        (error == -ECONNRESET ? state->lost(from) : state->end()));
    state->hosts->finish(*this);
}

/* An accepted message comes. A send ends when its receiver takes it, or leaves. */
void RemoteMessage::cancel(const std::string &why)
{
    if (!receive_ || !state->hosts->wire.withdraw(receive_))
        return;
    fail(-ECANCELED, state->me() + ": " + describe() + ": " + why);
    state->hosts->finish(*this);
}

void RemoteMessage::look()
{
    look_for_end();
    take_proof(true);
    raise_if_stuck();
    if (peer_ != any_source && !by_clock && state->engine.waits_alone(true) && is_unmatched())
        state->hosts->show_waiting(*this);
}

void RemoteMessage::look_away()
{
    take_proof(false);
}

void RemoteMessage::take_proof(bool stays)
{
    std::string found = state->hosts->stop_waiting(*this, stays);

    if (!found.empty())
        stuck_ = in_vain(found);
}

bool RemoteMessage::is_unmatched() const
{
    return receive_ ? state->hosts->wire.is_posted(receive_) : state->hosts->wire.is_offered(offer_);
}

bool RemoteMessage::await(Clock::time_point until)
{
    return state->hosts->await(*this, until);
}

/* ---- from any rank ---- */

/* Under the wire's lock: a message of another host has come. The table's half is taken back, unless it has met one itself. */
bool AnyMessage::claim()
{
    claimed_ = true;
    if (state->engine.table()->cancel_unmatched(state->engine.context(),
                                                reinterpret_cast<uint64_t>(static_cast<Op *>(this))) == 0)
        return true;
    claimed_ = false;
    release();
    return false;
}

void AnyMessage::post()
{
    auto receive = std::make_shared<Wire::Receive>();

    receive->peer = any_source;
    receive->tag = tag();
    receive->data = bytes_ ? flat_.data_ptr() : nullptr;
    receive->room = bytes_;
    receive->claim = [this] { return claim(); };
    receive->done = [this](int error, int from, const Header &header) {
        if (error)
            fail(error, state->me() + ": " + describe() + ": " +
                            (error == -ECONNRESET ? state->lost(from) : state->end()));
        else
            check_received(0, from, header.bytes, static_cast<at::ScalarType>(header.value >> 32 & 0xff));
        std::unique_lock<std::mutex> lock(halves_mutex_);
        bool is_last = one_is_over_;
        one_is_over_ = true;
        lock.unlock();
        if (is_last)
            state->hosts->finish(*this);
        release();
    };
    receive_ = receive;
    hold(); /* of the wire's half; given back by who takes that off */
    try {
        Message::post();
    } catch (...) {
        release();
        throw;
    }
    state->hosts->wire.receive(receive);
    if (is_done())
        take_off();
    else
        cancel_if_left();
}

bool AnyMessage::take_off()
{
    if (!state->hosts->wire.withdraw(receive_))
        return false;
    release();
    return true;
}

/* A claimed half of the table that is taken back leaves its post to the wire's half. */
bool AnyMessage::take(const struct nigh_completion &completion)
{
    if (completion.status == -ECANCELED && claimed_) {
        std::lock_guard<std::mutex> lock(halves_mutex_);
        bool is_last = one_is_over_;

        one_is_over_ = true;
        return is_last;
    }
    if (!Message::take(completion))
        return false;
    (void)take_off();
    return true;
}

void AnyMessage::cancel(const std::string &why)
{
    if (take_off())
        Message::cancel(why);
}

/* The table's half is moved by the adapter's thread, as if a future had been asked for. */
bool AnyMessage::await(Clock::time_point until)
{
    struct Moved {
        explicit Moved(Engine &engine) : engine(engine)
        {
            engine.add_future();
        }
        ~Moved()
        {
            engine.subtract_future();
        }
        Engine &engine;
    } moved(state->engine);

    run_alone();
    return state->hosts->await(*this, until);
}

std::vector<std::string> unreceived(State &state)
{
    std::vector<std::string> out;

    for (const auto &one : state.hosts->wire.unmatched())
        if (one.second.tag >> 60 == message_class)
            out.push_back("a message from " + state.who(one.first) + ", tag " +
                          std::to_string(static_cast<uint32_t>(one.second.tag)) + ", " +
                          std::to_string(one.second.bytes) + " bytes, was never received");
    return out;
}

} // namespace nigh_torch
