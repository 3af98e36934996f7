/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * csrc/meet.cc - see meet.hpp. Rank 0 draws a nonce and publishes it under one fixed key; each other rank answers with its card
 * under the nonce; rank 0 publishes all cards under it. A card carries a number that its rank draws for this meeting: a list
 * that lacks one's own number is of an earlier life, and its reader goes on looking for rank 0's new nonce.
 */
#include "meet.hpp"

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <random>
#include <stdexcept>
#include <thread>

namespace nigh_torch
{

namespace
{

using std::chrono::microseconds;
using std::chrono::milliseconds;
using Bytes = std::vector<uint8_t>;

const uint32_t version = 3;
/* An invitation to other ranks may be of an earlier life: rank 0 has this long to replace it. */
const milliseconds differ_after(5000);

/* What a rank says of itself. */
struct Card {
    uint64_t nonce = 0;  /* of the meeting that it answers */
    uint64_t number = 0; /* drawn by its rank, for this meeting */
    int32_t pid = 0;
    struct nigh_address address = {};
    std::string host, ranks, place;
    std::string refusal; /* why it cannot take part; empty: it can */
};

class Writer
{
  public:
    template <typename T> void value(const T &value)
    {
        const auto *raw = reinterpret_cast<const uint8_t *>(&value);
        bytes.insert(bytes.end(), raw, raw + sizeof(value));
    }
    void text(const std::string &text)
    {
        value(static_cast<uint32_t>(text.size()));
        bytes.insert(bytes.end(), text.begin(), text.end());
    }
    void card(const Card &card)
    {
        value(version);
        value(card.nonce);
        value(card.number);
        value(card.pid);
        value(card.address);
        text(card.host);
        text(card.ranks);
        text(card.place);
        text(card.refusal);
    }
    Bytes bytes;
};

class Reader
{
  public:
    explicit Reader(const Bytes &bytes) : bytes_(bytes)
    {
    }
    template <typename T> void value(T &out)
    {
        need(sizeof(out));
        std::memcpy(&out, bytes_.data() + at_, sizeof(out));
        at_ += sizeof(out);
    }
    void text(std::string &out)
    {
        uint32_t length;
        value(length);
        need(length);
        out.assign(reinterpret_cast<const char *>(bytes_.data()) + at_, length);
        at_ += length;
    }
    void card(Card &out)
    {
        uint32_t theirs;
        value(theirs);
        if (theirs != version)
            throw std::runtime_error("nigh: another rank of the group has another release of nigh_torch");
        value(out.nonce);
        value(out.number);
        value(out.pid);
        value(out.address);
        text(out.host);
        text(out.ranks);
        text(out.place);
        text(out.refusal);
    }

  private:
    void need(size_t bytes)
    {
        if (bytes_.size() - at_ < bytes)
            throw std::runtime_error(
                "nigh: the store holds something that no rank of nigh_torch has written");
    }
    const Bytes &bytes_;
    size_t at_ = 0;
};

uint64_t draw()
{
    std::random_device random;
    return static_cast<uint64_t>(random()) << 32 | random();
}

std::string host_name()
{
    char name[256] = "";
    gethostname(name, sizeof(name) - 1);
    return name;
}

/* Several hosts on one machine: for the tests alone. */
std::string place_of_tests()
{
    const char *place = std::getenv("NIGH_TORCH_TEST_HOST");
    return place ? place : "";
}

class Table
{
  public:
    Table(c10d::Store &store, int rank, int size, const std::string &group, const std::string &ranks,
          milliseconds timeout)
        : store_(store), rank_(rank), size_(size), group_(group), until_(Clock::now() + timeout)
    {
        mine_.number = draw();
        mine_.pid = static_cast<int32_t>(getpid());
        mine_.host = host_name();
        mine_.ranks = ranks;
        mine_.place = place_of_tests();
        try {
            mine_.address = Engine::get().address();
        } catch (const std::exception &problem) {
            mine_.refusal = problem.what();
        }
    }

    Meeting meet()
    {
        Bytes list = rank_ == 0 ? invite() : answer();
        return read(list);
    }

  private:
    static std::string key(uint64_t nonce, const std::string &what)
    {
        return "nigh/" + std::to_string(nonce) + "/" + what;
    }

    bool has(const std::string &key)
    {
        return store_.check({key});
    }

    /* Between two looks: at first often, as all ranks mostly come together. */
    void pause()
    {
        std::this_thread::sleep_for(pause_);
        if (pause_ < microseconds(10000))
            pause_ += pause_ / 4;
    }

    [[noreturn]] void late(const std::string &who)
    {
        throw std::runtime_error(
            "nigh: rank " + std::to_string(rank_) + " of group " + group_ + " (" + mine_.ranks +
            ") has waited in vain for " + who +
            ": it has not made this group. Are all ranks started, and does each make the same "
            "groups in the same order?");
    }

    [[noreturn]] void differ(const std::string &theirs)
    {
        throw std::runtime_error("nigh: group " + group_ + " is of ranks " + mine_.ranks + " at rank " +
                                 std::to_string(rank_) + " and of ranks " + theirs +
                                 " at another: all ranks must make the same groups in the same order");
    }

    /* Rank 0. */
    Bytes invite()
    {
        uint64_t nonce = draw();
        std::vector<Card> cards(static_cast<size_t>(size_));
        Writer invitation, list;

        mine_.nonce = nonce;
        invitation.card(mine_);
        store_.set("nigh/0", invitation.bytes);
        cards[0] = mine_;
        for (int rank = 1; rank < size_; rank++) {
            std::string wanted = key(nonce, std::to_string(rank));

            while (!has(wanted)) {
                if (Clock::now() >= until_)
                    late("rank " + std::to_string(rank));
                look_for_another(nonce);
                pause();
            }
            Bytes bytes = store_.get(wanted);
            Reader(bytes).card(cards[static_cast<size_t>(rank)]);
        }
        list.value(static_cast<uint32_t>(draw()));
        for (const Card &card : cards)
            list.card(card);
        store_.set(key(nonce, "all"), list.bytes);
        return list.bytes;
    }

    /* Two groups of one name, by ranks that do not make the same ones: each has its rank 0. */
    void look_for_another(uint64_t nonce)
    {
        Card card;
        Bytes bytes = store_.get("nigh/0");

        Reader(bytes).card(card);
        if (card.nonce != nonce && card.ranks != mine_.ranks)
            differ(card.ranks);
    }

    /* The others. */
    Bytes answer()
    {
        uint64_t answered = 0;
        Clock::time_point differs_since;
        int looks = 0;

        for (;; pause(), looks++) {
            if (answered && has(key(answered, "all"))) {
                Bytes list = store_.get(key(answered, "all"));

                if (is_mine(list))
                    return list;
                answered = 0; /* of an earlier life */
            }
            if (answered && looks % 8 != 0)
                continue;
            if (Clock::now() >= until_)
                late(answered ? "the other ranks" : "rank 0");
            if (!has("nigh/0"))
                continue;
            Card zero;
            Bytes bytes = store_.get("nigh/0");

            Reader(bytes).card(zero);
            if (zero.nonce != mine_.nonce) {
                reply(zero);
                answered = zero.nonce;
                differs_since = Clock::now();
            }
            /* Once its list is there, its meeting is over. */
            if (answered && zero.ranks != mine_.ranks && Clock::now() - differs_since >= differ_after &&
                !has(key(zero.nonce, "all")))
                differ(zero.ranks);
        }
    }

    void reply(const Card &zero)
    {
        Writer card;

        mine_.nonce = zero.nonce;
        card.card(mine_);
        store_.set(key(zero.nonce, std::to_string(rank_)), card.bytes);
    }

    bool is_mine(const Bytes &list)
    {
        Reader reader(list);
        uint32_t tag;

        reader.value(tag);
        for (int rank = 0; rank < size_; rank++) {
            Card card;
            reader.card(card);
            if (rank == rank_)
                return card.number == mine_.number;
        }
        return false;
    }

    Meeting read(const Bytes &list)
    {
        Reader reader(list);
        Meeting meeting;

        meeting.nonce = mine_.nonce;
        reader.value(meeting.tag_group);
        for (int rank = 0; rank < size_; rank++) {
            Card card;

            reader.card(card);
            if (!card.refusal.empty())
                throw std::runtime_error("rank " + std::to_string(rank) + " of group " + group_ +
                                         " cannot take part: " + card.refusal);
            if (card.ranks != mine_.ranks)
                differ(card.ranks);
            meeting.members.push_back({card.address, card.pid, card.host, card.place});
        }
        return meeting;
    }

    c10d::Store &store_;
    int rank_, size_;
    std::string group_;
    Clock::time_point until_;
    microseconds pause_{100};
    Card mine_;
};

} // namespace

std::vector<int> find_hosts(c10d::Store &store, const Meeting &meeting, int rank, int lowest,
                            milliseconds timeout)
{
    std::string prefix = "nigh/" + std::to_string(meeting.nonce) + "/host/";
    Clock::time_point until = Clock::now() + timeout;
    std::vector<int> out;
    Writer mine;

    mine.value(lowest);
    store.set(prefix + std::to_string(rank), mine.bytes);
    for (size_t other = 0; other < meeting.members.size(); other++) {
        std::string key = prefix + std::to_string(other);

        while (!store.check({key})) {
            if (Clock::now() >= until)
                throw std::runtime_error("nigh: rank " + std::to_string(other) +
                                         " has not said which ranks are on its machine");
            std::this_thread::sleep_for(milliseconds(1));
        }
        Bytes bytes = store.get(key);
        int theirs;
        Reader(bytes).value(theirs);
        out.push_back(theirs);
    }
    return out;
}

Meeting meet(c10d::Store &store, int rank, int size, const std::string &group, const std::string &ranks,
             milliseconds timeout)
{
    return Table(store, rank, size, group, ranks, timeout).meet();
}

} // namespace nigh_torch
