/* SPDX-License-Identifier: BSD-3-Clause */
/* coll/source.h - bytes of another member's: its `in`, or its part of a result, whichever way it shows them. Its words are
 * copied once and checked when the source is opened. */
#ifndef NIGH_COLL_SOURCE_H
#define NIGH_COLL_SOURCE_H

#include "coll/member.h"
#include "coll/shape.h"

struct nigh_source {
    const struct nigh_call_slot *slot;
    enum nigh_lies lies;
    uint64_t where;  /* of the part that is for us, but of a stream */
    uint64_t bytes;  /* of that part */
    uint64_t piece;  /* of a stream: bytes of the part in a unit */
    uint64_t stream; /* bytes from one unit to the next */
};

/* The member's `in` in `slot`, which was published. 0; -EMSGSIZE: it gives another number of bytes than `expected`, *bytes;
 * -EPROTO: it says what cannot be. */
int nigh_source_open(const struct nigh_member *member, const struct nigh_call_slot *slot,
                     const struct nigh_shape *shape, bool by_parts, uint64_t expected,
                     struct nigh_source *out, uint64_t *bytes);
/* Its part of the result: where bytes [0, bytes) of the vector lie, of which it has some. Once `reduced` is not 0. -EPROTO. */
int nigh_source_open_out(const struct nigh_member *member, const struct nigh_call_slot *slot,
                         const struct nigh_shape *shape, struct nigh_source *out);

/* Is it the host's own buffer, which must not be read once the member has ended the call? */
static inline bool nigh_source_is_direct(const struct nigh_source *source)
{
    return source->lies == NIGH_LIES_HEAP || source->lies == NIGH_LIES_PROCESS;
}

/* How many bytes of the part are there. */
uint64_t nigh_source_there(const struct nigh_source *source);

/* Where [at, at + *bytes) of the part can be read in place: *bytes may become less. NULL: by nigh_source_read() alone. */
const void *nigh_source_at(const struct nigh_source *source, const struct nigh_member *member, uint64_t at,
                           uint64_t *bytes);
/* Copies them. 0, or an error of nigh_cma_read(). */
int nigh_source_read(const struct nigh_source *source, const struct nigh_member *member, uint64_t at,
                     uint64_t bytes, void *to);

#endif
