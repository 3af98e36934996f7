/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/unit/boards_hostile_domains.h - the part of boards_hostile_test.c that lies about places and domains. */
#ifndef NIGH_TESTS_BOARDS_HOSTILE_DOMAINS_H
#define NIGH_TESTS_BOARDS_HOSTILE_DOMAINS_H

/* The victim is told that it runs on L3 0, and the foe says that it does on 7: each goes for its own domain. */
static void form_domains(void)
{
    const struct nigh_where far = {.l3 = 8, .node = 1, .package = 1};

    set(&boards->at[0].where, nigh_tree_word(&far, NIGH_LEVEL_L3));
    form();
    assert_int_equal(facts().domains, 2);
}

static struct nigh_domain_slot *domain_slot(void)
{
    return (void *)(foe.arena.base + heap + AT_PARTS);
}

/* An allreduce of two elements, and what the foe's domain gives to it. */
static void post_small(void)
{
    struct nigh_collective call = {.size = sizeof(call),
                                   .op = NIGH_ALLREDUCE,
                                   .type = NIGH_U32,
                                   .reduction = NIGH_SUM,
                                   .count = 2,
                                   .send = in,
                                   .recv = out,
                                   .context = posted};

    memset(room, MARK, sizeof(room));
    in[0] = 5;
    in[1] = 6;
    assert_int_equal(hosted_ops->post_collective(besieged, &call), 0);
    posted++;
    comes(posted - 1);
}

static void gives_domain(uint64_t where)
{
    const uint32_t given[] = {10, 20};

    memset(domain_slot(), 0xff, NIGH_CALL_SLOTS * sizeof(struct nigh_domain_slot));
    memcpy(domain_slot()->up_payload, given, sizeof(given));
    domain_slot()->up_where = where;
}

static void test_place_that_cannot_be(void **state)
{
    static const uint64_t words[] = {UINT64_MAX, UINT64_C(5) << 48, UINT64_C(0xff02) << 48};

    for (unsigned i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (i)
            again(state);
        set(&boards->at[0].where, words[i]);
        set(&boards->keys[0], key);
        refused();
    }
}

/* It is asked once: what it says of its place later is not looked at. */
static void test_place_that_changes(void **state)
{
    const uint32_t sum[] = {15, 26};

    (void)state;
    form_domains();
    set(&boards->at[0].where, UINT64_MAX);
    post_small();
    gives_domain(0);
    turns(10);
    set(&boards->at[0].domain_slots, heap + AT_PARTS);
    turns(10);
    set(&domain_slot()->up, slot_of(0)->head);
    assert_int_equal(hosted_until(&victim, &good, NIGH_OP_COLLECTIVE, 0)->status, 0);
    assert_memory_equal(out, sum, sizeof(sum));
    edges_are_whole(sizeof(sum));
}

static void test_other_domains(void **state)
{
    (void)state;
    form_domains();
    post_small();
    set(&boards->at[0].tree, NIGH_TREE_SHOWN | 12345);
    ends(0, -EIO);
    assert_int_equal(facts().about, 1);
}

static void test_domain_slots(void **state)
{
    const uint64_t wheres[] = {NIGH_PAGE, last(), UINT64_MAX - NIGH_LINE + 1, heap + 8};

    for (unsigned i = 0; i < 4; i++) {
        if (i)
            again(state);
        form_domains();
        post_small();
        set(&boards->at[0].domain_slots, wheres[i]);
        ends(0, -EIO);
        assert_int_equal(facts().about, 1);
    }
}

static void test_domain_data(void **state)
{
    const uint64_t wheres[] = {NIGH_PAGE, last() + NIGH_LINE - 4, UINT64_MAX - 3, UINT64_MAX};

    for (unsigned i = 0; i < 5; i++) {
        if (i)
            again(state);
        form_domains();
        post_small();
        gives_domain(i < 4 ? wheres[i] : 0);
        set(&boards->at[0].domain_slots, heap + AT_PARTS);
        set(&domain_slot()->up, slot_of(0)->head ^ (i == 4));
        ends(0, i < 4 ? -EIO : -EPROTO);
        assert_int_equal(facts().about, 1);
    }
}

#endif
