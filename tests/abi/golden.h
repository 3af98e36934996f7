/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/abi/golden.h - constants, and the places of the fields of structs, beside the literals that they must be. */
#ifndef NIGH_TESTS_GOLDEN_H
#define NIGH_TESTS_GOLDEN_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

struct constant {
    const char *name;
    uint64_t is, golden;
};
#define CONSTANT(text, value)                                    \
    {                                                            \
        .name = #text, .is = (uint64_t)(text), .golden = (value) \
    }

/* field NULL: the struct as a whole. */
struct place {
    const char *of, *field;
    size_t offset, bytes, golden_offset, golden_bytes;
};
#define STRUCT(name, width)                                                \
    {                                                                      \
        .of = #name, .bytes = sizeof(struct name), .golden_bytes = (width) \
    }
#define FIELD(name, member, at, width)                                                                 \
    {                                                                                                  \
        .of = #name, .field = #member, .offset = offsetof(struct name, member),                        \
        .bytes = sizeof(((struct name *)NULL)->member), .golden_offset = (at), .golden_bytes = (width) \
    }
/* A flexible array at the end. */
#define TAIL(name, member, at)                                                                        \
    {                                                                                                 \
        .of = #name, .field = #member, .offset = offsetof(struct name, member), .golden_offset = (at) \
    }

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static inline void check_constants(const struct constant *all, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (all[i].is != all[i].golden)
            fail_msg("%s is %llu, must be %llu", all[i].name, (unsigned long long)all[i].is,
                     (unsigned long long)all[i].golden);
    }
}

static inline void check_place(const struct place *place)
{
    if (place->offset != place->golden_offset || place->bytes != place->golden_bytes)
        fail_msg("%s.%s is %zu bytes at %zu, must be %zu at %zu", place->of, place->field ? place->field : "",
                 place->bytes, place->offset, place->golden_bytes, place->golden_offset);
}

/* Fields follow each other without holes to the end, so that no field can be added where nobody sees it, and no
 * byte is left that a caller's compiler fills with garbage. */
static inline void check_places(const struct place *all, size_t count)
{
    size_t next = 0, whole = 0;

    for (size_t i = 0; i < count; i++) {
        check_place(&all[i]);
        if (!all[i].field) {
            assert_int_equal(next, whole);
            whole = all[i].bytes;
            next = 0;
            continue;
        }
        if (all[i].offset != next)
            fail_msg("%s has a hole of %zd bytes before %s", all[i].of, (ssize_t)(all[i].offset - next),
                     all[i].field);
        next += all[i].bytes;
    }
    assert_int_equal(next, whole);
}

/* Every struct that the header defines is in the table. */
static inline void check_all_listed(const char *header, const struct place *all, size_t count)
{
    const char *root = getenv("NIGH_SRCDIR");
    char path[4096], line[512], name[128];
    unsigned structs = 0;
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", root ? root : ".", header);
    file = fopen(path, "r");
    if (!file)
        fail_msg("cannot read %s", path);
    while (fgets(line, sizeof(line), file)) {
        size_t i = 0;

        if (sscanf(line, "struct %127[a-z0-9_] {", name) != 1 || !strchr(line, '{'))
            continue;
        structs++;
        while (i < count && (all[i].field || strcmp(all[i].of, name) != 0))
            i++;
        if (i == count)
            fail_msg("struct %s of %s has no golden sizes", name, header);
    }
    fclose(file);
    assert_in_range(structs, 1, 100);
}

/* All that a header has: each a case of its own. */
struct golden {
    const char *header;
    const struct constant *constants;
    size_t constant_count;
    const struct place *places;
    size_t place_count;
};
#define GOLDEN(file, its_constants, its_places)                                                 \
    {                                                                                           \
        .header = (file), .constants = (its_constants), .constant_count = COUNT(its_constants), \
        .places = (its_places), .place_count = COUNT(its_places)                                \
    }
#define GOLDEN_CASE(all, check)                                                      \
    {                                                                                \
        .name = #all "_" #check, .test_func = check, .initial_state = (void *)&(all) \
    }
#define GOLDEN_CASES(all)                                                         \
    GOLDEN_CASE(all, constants_are_golden), GOLDEN_CASE(all, structs_are_golden), \
        GOLDEN_CASE(all, structs_are_all_listed)

static inline void constants_are_golden(void **state)
{
    const struct golden *all = *state;

    check_constants(all->constants, all->constant_count);
}

static inline void structs_are_golden(void **state)
{
    const struct golden *all = *state;

    check_places(all->places, all->place_count);
}

static inline void structs_are_all_listed(void **state)
{
    const struct golden *all = *state;

    check_all_listed(all->header, all->places, all->place_count);
}

#endif
