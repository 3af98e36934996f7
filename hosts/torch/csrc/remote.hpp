/* SPDX-License-Identifier: BSD-3-Clause */
/* csrc/remote.hpp - messages of a group on several hosts: to and from ranks of others, and from any rank. */
#ifndef NIGH_TORCH_REMOTE_H
#define NIGH_TORCH_REMOTE_H

#include "hosts.hpp"
#include "message.hpp"

namespace nigh_torch
{

/* Goes by the wire. */
class RemoteMessage : public Message
{
  public:
    using Message::Message;
    void post() override;
    void cancel(const std::string &why) override;
    void look() override;
    void look_away() override;
    bool await(Clock::time_point until) override;
    /* It has met no message and no receive. */
    bool is_unmatched() const;

  protected:
    void post_send();
    void post_receive();
    void take_proof(bool stays);
    void take_remote(int error, int from, const Header &header);
    uint64_t tag() const
    {
        return wire_tag(message_class, static_cast<uint32_t>(tag_));
    }
    Wire::Receipt receive_;
    uint64_t offer_ = 0; /* 0: none */
};

/* A receive that is posted to the table and to the wire. One of them takes the message, the other half is taken back. */
class AnyMessage : public RemoteMessage
{
  public:
    using RemoteMessage::RemoteMessage;
    void post() override;
    void cancel(const std::string &why) override;
    bool await(Clock::time_point until) override;

  protected:
    bool take(const struct nigh_completion &completion) override;

  private:
    bool claim();
    bool take_off();
    std::atomic<bool> claimed_{false};
    std::mutex halves_mutex_;
    bool one_is_over_ = false; /* of a claimed one: the table's half, or the wire's */
};

/* A message of the group, by the way between the two ranks. */
Ref<Message> make_message(const std::shared_ptr<State> &state, Kind kind, const char *name, int peer, int tag,
                          const at::Tensor &tensor, const at::Tensor &flat);

/* Messages of ranks of other hosts that were never received. */
std::vector<std::string> unreceived(State &state);

} // namespace nigh_torch

#endif
