/* SPDX-License-Identifier: BSD-3-Clause */
/* csrc/exchange.hpp - the messages between hosts of one collective: posted one by one, waited for together. */
#ifndef NIGH_TORCH_EXCHANGE_H
#define NIGH_TORCH_EXCHANGE_H

#include "hosts.hpp"

namespace nigh_torch
{

class Hosts::Exchange
{
  public:
    explicit Exchange(Hosts &hosts) : hosts_(hosts)
    {
    }
    /* Takes back what has not begun, and waits for the rest: memory is the caller's again. */
    ~Exchange();
    Exchange(const Exchange &) = delete;
    Exchange &operator=(const Exchange &) = delete;

    /* `phase` distinguishes messages of one call between the same two. */
    void send(int rank, const void *data, uint64_t bytes, uint32_t phase = 0);
    void receive(int rank, void *data, uint64_t bytes, uint32_t phase = 0);
    /* Throws Broken. */
    void wait();

  private:
    using TicketRef = std::shared_ptr<Ticket>;
    void end(const TicketRef &ticket, int error, const Header &header);

    Hosts &hosts_;
    std::vector<TicketRef> tickets_;
};

} // namespace nigh_torch

#endif
