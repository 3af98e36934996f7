/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * csrc/wire.hpp - messages between ranks of different hosts. gloo carries bytes; matching, cancelling and the ends of peers are
 * done here, as gloo has them in forms that nigh_torch does not promise: docs/rationale/torch.md, "More than one host".
 */
#ifndef NIGH_TORCH_WIRE_H
#define NIGH_TORCH_WIRE_H

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <condition_variable>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace nigh_torch
{

/* A collective, to be compared among the ranks. */
struct Print {
    uint32_t op, type, reduction, root;
    uint64_t count, serial;
};

struct Header {
    uint32_t magic, kind;
    uint64_t tag, bytes;
    uint64_t id;     /* of an offer at its sender */
    uint64_t value;  /* the immediate; of an answer: the receive */
    uint64_t credit; /* given back: what the receiver has taken of the peer's eager messages */
    Print print;
};

class Wire
{
  public:
    /* Words are heard at once and matched with nothing. The first that are the wire's own are below. */
    enum : uint32_t { word = 16 };

    struct Receive {
        int peer; /* negative: any */
        uint64_t tag;
        void *data;
        uint64_t room;
        /* Asked once a message has met it, with a lock of the wire: does it take the message? Empty: yes. */
        std::function<bool()> claim;
        /* 0, or -ECONNRESET, -ECANCELED. More bytes than `room` are dropped, which the header shows. */
        std::function<void(int error, int from, const Header &header)> done;
    };
    using Receipt = std::shared_ptr<Receive>;
    using Done = std::function<void(int error)>;
    /* When a send is done: short messages at once as long as the receiver has room for them; each at once, for short ones that are
     * few; or each when a receive has taken it. */
    enum class Ends { with_room, at_once, when_taken };

    Wire(c10::intrusive_ptr<c10d::Backend> gloo, std::vector<int> peers);
    ~Wire();

    /* Called in threads of the wire, without a lock. */
    std::function<void(int from, const Header &header)> arrived; /* of each message, before it is matched */
    std::function<void(int from, const Header &header, const std::string &text)> heard;
    std::function<void(int peer, const std::string &why)> lost;

    void start();
    /* Everything that is outstanding ends with -ECANCELED. Joins the threads, so it is not for them. */
    void stop();
    /* Waits for what was sent to be on its way. */
    void flush(std::chrono::milliseconds patience);

    /* Messages of one sender to one receiver are matched in order. The bytes stay until `done`, which may run in the call.
     * *id, if wanted: for retract(), or 0. -ECONNRESET, -ECANCELED: `done` does not run. */
    int send(int peer, Header header, const void *data, Done done, uint64_t *id = nullptr,
             Ends ends = Ends::with_room);
    void say(int peer, uint32_t kind, uint64_t value, const std::string &text = "", uint64_t id = 0);
    void receive(const Receipt &receive);
    /* Each takes back what has met nothing; false: it ends by itself. `done` does not run. */
    bool withdraw(const Receipt &receive);
    bool retract(uint64_t id);
    /* Has it met nothing? */
    bool is_posted(const Receipt &receive) const;
    bool is_offered(uint64_t id) const;
    /* No more comes from this one. */
    void forget(int peer);
    bool is_lost(int peer) const;
    /* What was never received. */
    std::vector<std::pair<int, Header>> unmatched() const;

  private:
    static constexpr uint32_t magic = 0x6e696768;
    static constexpr uint64_t eager_max = 32768;
    /* A receiver's room for the short messages of one sender that no receive has taken. Beyond it they are offered. */
    static constexpr uint64_t room = 4 << 20;
    /* For what an eager message takes beside its bytes; it bounds the number of those that a receive has to be compared with. */
    static constexpr uint64_t room_each = 1024;
    enum Kind : uint32_t { eager = 1, offer, accept, bytes, got, retracted, credit };
    struct Offer {
        int peer;
        const void *data;
        uint64_t bytes;
        Done done;
        c10::intrusive_ptr<c10d::Work> work; /* of one whose bytes are on their way */
    };
    struct Unexpected {
        int from;
        Header header;
        std::vector<char> data;
    };
    struct Incoming {
        int from;
        Header header;
        Receipt receive;
    };
    struct Written {
        c10::intrusive_ptr<c10d::Work> work;
        at::Tensor data;
        int peer;
    };
    using WorkOf = c10::intrusive_ptr<c10d::Work>;

    static bool meets(const Receive &receive, int from, uint64_t tag);
    int put(int peer, const Header &header, const void *data, uint64_t bytes);
    int put_locked(int peer, const Header &header, const void *data, uint64_t bytes);
    int put_eager(int peer, Header &header, const void *data, Ends ends, bool &has_room);
    void take_credit(int peer, uint64_t bytes);
    void give_credit(int peer, uint64_t bytes);
    void listen(int peer);
    bool hear_once(int peer, at::Tensor &buffer);
    WorkOf post_receive(int peer, at::Tensor &buffer, int tag);
    void handle(int peer, const Header &header, const char *data);
    void arrive(int peer, const Header &header, const char *data);
    void deliver(const Receipt &receive, int from, const Header &header, const char *data);
    void answer(int peer, const Header &header);
    int send_bytes(Offer &offer, const Header &header);
    void take_bytes(int peer, uint64_t receive);
    int receive_bytes(int peer, at::Tensor into);
    void acknowledged(int peer, uint64_t id);
    void leave_unwritten(int peer);
    void end_of(int peer, const std::string &why);
    void fail_all(int peer, int error);
    void write();

    const c10::intrusive_ptr<c10d::Backend> gloo_;
    const std::vector<int> peers_;
    std::vector<std::thread> threads_;

    mutable std::mutex gloo_mutex_; /* of posts to gloo, and of all until the empty line */
    std::condition_variable written_cv_;
    std::deque<Written> written_;
    std::map<int, uint64_t> used_; /* of each peer's room for eager messages */
    std::map<int, uint64_t> owed_; /* credit of each peer that is to be given back */
    std::map<int, WorkOf> listening_;
    WorkOf writing_;
    int writing_to_ = -1;
    std::set<int> gone_;
    bool stopping_ = false;

    mutable std::mutex mutex_; /* of all below; taken before gloo_mutex_ */
    std::list<Receipt> posted_;
    std::list<Unexpected> unexpected_;
    std::map<uint64_t, Offer> offers_, sent_;
    std::map<uint64_t, Incoming> incoming_;
    std::set<int> lost_;
    int over_ = 0; /* what receives end with that are posted behind the end */
    uint64_t next_ = 1;
};

} // namespace nigh_torch

#endif
