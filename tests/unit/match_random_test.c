/* SPDX-License-Identifier: BSD-3-Clause */
/* A million random steps through tag matching and through two plain arrays in order of time, which are searched
 * from their front: both must name the same receive and the same message at every step. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "plugin/match_alone.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM = 4096 };

struct model {
    struct nigh_matcher matcher;
    struct nigh_posted *posted[ROOM]; /* oldest first */
    struct nigh_arrived *arrived[ROOM];
    uint32_t posts, arrivals;
    uint64_t random;
    uint32_t limit; /* of either array in this phase */
    uint64_t step;
    bool one_shape;    /* receives name a source and a tag */
    bool few_any;      /* few are from anyone, so that they may wait alone */
    uint64_t one_mask; /* of most receives in this phase, 0: all sorts */
    uint64_t matched, unexpected, kept, masked,
        listed; /* what was seen, so that a run that saw nothing fails */
    uint64_t relearnt;
    uint64_t alone,
        joined;      /* receives that waited alone when their messages came; when another one was posted */
    uint64_t beside; /* of those that waited alone beside one that stood in the same class */
    uint64_t ran;    /* receives taken in runs of two and more */
};

static uint32_t draw(struct model *m, uint32_t below)
{
    m->random ^= m->random << 13;
    m->random ^= m->random >> 7;
    m->random ^= m->random << 17;
    return (uint32_t)((m->random >> 16) % below);
}

static uint64_t draw_tag(struct model *m)
{
    uint64_t tag = draw(m, m->few_any ? 2 : m->limit < 100 ? 6 : m->limit / 2);

    return draw(m, 4) == 0 ? tag | UINT64_C(1) << 63 : tag;
}

static uint64_t draw_ignore(struct model *m)
{
    static const uint64_t ignores[] = {0x1, 0x3, 0x7, UINT64_C(1) << 63, UINT64_C(0xff) << 56, ~UINT64_C(1)};
    uint32_t what = draw(m, 8);

    if (m->one_mask != 0 && what < 6)
        return m->one_mask;
    if (what < 3)
        return 0;
    if (what == 3)
        return draw(m, 64) * UINT64_C(0x0100000000000001); /* more shapes than there is room for */
    return what < 6 ? NIGH_IGNORE_ALL : ignores[draw(m, sizeof(ignores) / sizeof(ignores[0]))];
}

static bool fits(uint32_t source, uint32_t tclass, uint64_t tag, uint64_t ignore, uint32_t from, uint32_t in,
                 uint64_t with)
{
    return tclass == in && (source == NIGH_ANY || source == from) && (tag & ~ignore) == (with & ~ignore);
}

static void remove_posted(struct model *m, uint32_t at)
{
    m->posts--;
    memmove(&m->posted[at], &m->posted[at + 1], (m->posts - at) * sizeof(m->posted[0]));
}

static void remove_arrived(struct model *m, uint32_t at)
{
    m->arrivals--;
    memmove(&m->arrived[at], &m->arrived[at + 1], (m->arrivals - at) * sizeof(m->arrived[0]));
}

static uint32_t first_arrived(const struct model *m, const struct nigh_posted *r)
{
    uint32_t i = 0;

    while (i < m->arrivals && !fits(r->source, r->tclass, r->tag, r->ignore, m->arrived[i]->source,
                                    m->arrived[i]->tclass, m->arrived[i]->tag))
        i++;
    return i;
}

static void expect(const struct model *m, const char *what, const void *got, const void *wanted)
{
    if (got != wanted)
        fail_msg("step %llu: %s: %p instead of %p", (unsigned long long)m->step, what, got, wanted);
}

static void draw_receive(struct model *m, struct nigh_posted *r)
{
    *r = (struct nigh_posted){.source = draw(m, 3) == 0 ? NIGH_ANY : draw(m, 5),
                              .tclass = (uint16_t)draw(m, 3),
                              .tag = draw_tag(m),
                              .ignore = draw_ignore(m),
                              .keep = draw(m, m->few_any     ? 20
                                              : m->one_shape ? 64
                                                             : 16) == 0};
    if (r->source == NIGH_ANY && (m->one_shape || (m->few_any && draw(m, 4) != 0)))
        r->source = 0;
    if (m->one_shape)
        r->ignore = 0;
}

static void step_receive(struct model *m, bool probe)
{
    struct nigh_posted r;
    struct nigh_arrived *found;
    uint32_t at;

    draw_receive(m, &r);
    at = first_arrived(m, &r);
    found = nigh_match_find(&m->matcher, r.source, r.tclass, r.tag, r.ignore, !probe);
    expect(m, "find", found, at < m->arrivals ? m->arrived[at] : NULL);
    if (probe)
        return;
    if (found != NULL) {
        remove_arrived(m, at);
        free(found);
        m->unexpected++;
    } else if (m->posts < m->limit) {
        struct nigh_posted *posted = malloc(sizeof(*posted));

        assert_non_null(posted);
        *posted = r;
        if (nigh_match_may_wait_alone(&m->matcher, r.source) && !r.keep && draw(m, 4) != 0) {
            nigh_match_post_alone(&m->matcher, posted);
        } else {
            uint64_t alone = m->matcher.alone;

            m->joined += !r.keep && alone;
            nigh_match_post(&m->matcher, posted);
            assert_true(m->matcher.alone == (r.keep ? alone : 0));
        }
        m->posted[m->posts++] = posted;
    }
}

static void step_arrive(struct model *m)
{
    uint32_t source = draw(m, 5), tclass = draw(m, 3), at = 0;
    uint64_t tag = draw_tag(m);
    bool stands = nigh_match_stands(&m->matcher, tclass),
         others = !nigh_match_all_alone(&m->matcher) || stands,
         may = nigh_match_may_take(&m->matcher, source, tclass, tag);
    struct nigh_posted *found = nigh_match_arrive(&m->matcher, source, tclass, tag);

    while (at < m->posts && !fits(m->posted[at]->source, m->posted[at]->tclass, m->posted[at]->tag,
                                  m->posted[at]->ignore, source, tclass, tag))
        at++;
    expect(m, "arrive", found, at < m->posts ? m->posted[at] : NULL);
    assert_true(found != NULL ? may : others || !may);
    if (found != NULL) {
        m->matched++;
        m->alone += found->shape == NIGH_MATCH_ALONE;
        m->beside += found->shape == NIGH_MATCH_ALONE && stands;
        m->listed += found->shape == NIGH_MATCH_LISTED;
        m->masked += found->ignore != 0 && found->ignore != NIGH_IGNORE_ALL;
        m->kept += found->keep;
        if (found->keep)
            return;
        remove_posted(m, at);
        free(found);
    } else if (m->arrivals < m->limit) {
        struct nigh_arrived *arrived = malloc(sizeof(*arrived));

        assert_non_null(arrived);
        *arrived = (struct nigh_arrived){.source = source, .tclass = tclass, .tag = tag};
        nigh_match_keep(&m->matcher, arrived);
        m->arrived[m->arrivals++] = arrived;
    }
}

/* Several messages of one source and class at once, mostly with the tag of a receive that stands. */
static void step_run(struct model *m)
{
    const struct nigh_posted *like = m->posted[draw(m, m->posts)];
    uint32_t source = like->source == NIGH_ANY ? draw(m, 5) : like->source, tclass = like->tclass;
    uint64_t tag = like->tag;
    struct nigh_match_run run = {0};
    uint32_t taken = 0;

    if (nigh_match_stands(&m->matcher, tclass))
        return;
    for (uint32_t i = draw(m, 8); i > 0; i--) {
        struct nigh_posted *found;
        uint32_t at = 0;

        if (draw(m, 3) == 0)
            tag = draw_tag(m);
        found = nigh_match_run_peek(&m->matcher, &run, source, tclass, tag);
        while (at < m->posts && !fits(m->posted[at]->source, m->posted[at]->tclass, m->posted[at]->tag,
                                      m->posted[at]->ignore, source, tclass, tag))
            at++;
        expect(m, "run", found, at < m->posts ? m->posted[at] : NULL);
        if (!found || draw(m, 16) == 0)
            break;
        nigh_match_run_take(&run);
        remove_posted(m, at);
        memset(found, 0xee, sizeof(*found)); /* it is its taker's */
        free(found);
        taken++;
    }
    nigh_match_run_end(&m->matcher, &run, taken);
    m->ran += taken > 1 ? taken : 0;
}

static void step_withdraw(struct model *m)
{
    if (m->posts > 0) {
        uint32_t at = draw(m, m->posts);

        nigh_match_withdraw(&m->matcher, m->posted[at]);
        free(m->posted[at]);
        remove_posted(m, at);
    }
    if (m->arrivals > 0) {
        uint32_t at = draw(m, m->arrivals);

        nigh_match_drop(&m->matcher, m->arrived[at]);
        free(m->arrived[at]);
        remove_arrived(m, at);
    }
}

static void step_take_posted(struct model *m, uint32_t source)
{
    struct nigh_posted *taken = nigh_match_take_posted(&m->matcher, source), *next;

    for (uint32_t i = 0; i < m->posts;) {
        if (m->posted[i]->source != source) {
            i++;
            continue;
        }
        expect(m, "take_posted", taken, m->posted[i]);
        next = nigh_posted_next(taken);
        remove_posted(m, i);
        free(taken);
        taken = next;
    }
    expect(m, "end of take_posted", taken, NULL);
}

static void step_take_arrived(struct model *m, uint32_t source)
{
    struct nigh_arrived *taken = nigh_match_take_arrived(&m->matcher, source), *next;

    for (uint32_t tclass = 0; tclass < 3; tclass++) {
        for (uint32_t i = 0; i < m->arrivals;) {
            if (m->arrived[i]->source != source || m->arrived[i]->tclass != tclass) {
                i++;
                continue;
            }
            expect(m, "take_arrived", taken, m->arrived[i]);
            next = nigh_arrived_next(taken);
            remove_arrived(m, i);
            free(taken);
            taken = next;
        }
    }
    expect(m, "end of take_arrived", taken, NULL);
}

static void step_take_all(struct model *m)
{
    for (uint32_t i = 0; i < 5; i++) {
        step_take_posted(m, i);
        step_take_arrived(m, i);
    }
    step_take_posted(m, NIGH_ANY);
}

static void step_oldest(struct model *m)
{
    uint32_t at = 0;

    while (at < m->posts && m->posted[at]->source != NIGH_ANY)
        at++;
    expect(m, "oldest from anyone", nigh_match_oldest_from_anyone(&m->matcher),
           at < m->posts ? m->posted[at] : NULL);
}

static void step(struct model *m)
{
    uint32_t what = draw(m, 1000);
    uint64_t filed_ignore = m->matcher.filed_ignore;

    if (m->few_any && what < 50)
        step_take_all(m);
    else if (m->one_shape && what % 8 == 0 && m->posts > 0 && m->matcher.others == 0)
        step_run(m);
    else if (what < 440)
        step_receive(m, false);
    else if (what < 880)
        step_arrive(m);
    else if (what < 940)
        step_receive(m, true);
    else if (what < 985)
        step_withdraw(m);
    else if (what < 988)
        step_oldest(m);
    else if (what == 988)
        step_take_posted(m, draw(m, 6) == 5 ? NIGH_ANY : draw(m, 5));
    else if (what == 989)
        step_take_arrived(m, draw(m, 5));
    m->relearnt += filed_ignore != m->matcher.filed_ignore;
    assert_int_equal(nigh_match_posted(&m->matcher), m->posts);
    assert_int_equal(m->matcher.arrived_count, m->arrivals);
}

static void run(struct model *m, uint64_t steps)
{
    for (uint64_t i = 0; i < steps; i++, m->step++)
        step(m);
}

static void a_million_steps_agree(void **state)
{
    struct model *m = calloc(1, sizeof(*m));

    (void)state;
    assert_non_null(m);
    assert_int_equal(nigh_match_init(&m->matcher), 0);
    m->random = UINT64_C(0x6e696768);
    m->limit = 40;
    run(m, 700000);
    m->one_mask = UINT64_C(1) << 63;
    run(m, 200000);
    m->limit = ROOM / 4; /* larger than the first table */
    run(m, 100000);
    m->one_mask = 0;
    run(m, 100000);
    step_take_all(m);
    m->few_any = true;
    m->limit = 4;
    run(m, 300000);
    m->limit = 40;
    m->few_any = false;
    m->one_shape = true;
    for (uint32_t i = 0; i < 5; i++)
        step_take_posted(m, i);
    step_take_posted(m, NIGH_ANY);
    run(m, 300000);
    print_message("%llu matched (%llu masked, %llu of them listed; %llu kept), %llu unexpected, filed anew "
                  "%llu times, %llu in runs, %llu alone, %llu of them beside one that stood, %llu joined\n",
                  (unsigned long long)m->matched, (unsigned long long)m->masked,
                  (unsigned long long)m->listed, (unsigned long long)m->kept,
                  (unsigned long long)m->unexpected, (unsigned long long)m->relearnt,
                  (unsigned long long)m->ran, (unsigned long long)m->alone, (unsigned long long)m->beside,
                  (unsigned long long)m->joined);
    assert_true(m->matched > 100000 && m->unexpected > 100000 && m->kept > 10000 && m->masked > 10000);
    assert_true(m->listed > 1000 && m->relearnt > 100 && m->ran > 1000);
    assert_true(m->alone > 500 && m->joined > 1000 && m->beside > 30);
    step_take_all(m);
    assert_int_equal(m->posts + m->arrivals, 0);
    assert_int_equal(nigh_match_posted(&m->matcher) + m->matcher.arrived_count, 0);
    assert_int_equal(m->matcher.stands, 0);
    assert_int_equal(m->matcher.others, 0);
    for (uint32_t shape = 0; shape < NIGH_MATCH_SHAPES; shape++) {
        if (shape != m->matcher.hot_key >> 48)
            assert_int_equal(m->matcher.shapes[shape].count, 0);
    }
    assert_int_equal(m->matcher.posted.queues + m->matcher.arrived.queues, 0);
    nigh_match_destroy(&m->matcher);
    free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_million_steps_agree),
    };
    return cmocka_run_group_tests_name("match_random", tests, NULL, NULL);
}
