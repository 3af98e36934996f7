/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/address.c - encoding and reading addresses, and the identity of the place. */
#include "shm/address.h"
#include "shm/log.h"
#include "shm/os.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC   UINT64_C(0x313072646461676e)
#define VERSION 1u

struct record {
    uint64_t magic;
    uint32_t version;
    uint32_t uid;
    uint64_t machine;
    uint64_t names;
    uint64_t job;
    uint64_t incarnation;
    uint32_t rank;
    uint32_t reserved; /* 0 */
    uint64_t check;    /* over all before it */
};
static_assert(sizeof(struct record) == NIGH_ADDRESS_BYTES, "the record fills an address");

/* FNV-1a: against accidents and for identities, not against forgers, who may write any address anyway. */
static uint64_t hash(const void *data, size_t bytes, uint64_t seed)
{
    const uint8_t *at = data;
    uint64_t value = UINT64_C(0xcbf29ce484222325) ^ seed;

    for (size_t i = 0; i < bytes; i++)
        value = (value ^ at[i]) * UINT64_C(0x100000001b3);
    return value;
}

/* Once for all contexts of a process, from any thread: a flag alone, which orders nothing. */
static bool first_time(_Atomic(bool) *said)
{
    bool first = !*said;

    *said = true;
    return first;
}

static uint64_t find_machine(void)
{
    static _Atomic(bool) said;
    static const char path[] = "/proc/sys/kernel/random/boot_id";
    char id[64];
    int fd = nigh_os.open(path, O_RDONLY | O_CLOEXEC, 0);
    ssize_t bytes = fd < 0 ? -1 : nigh_os.read(fd, id, sizeof(id));

    if (bytes <= 0 && first_time(&said))
        nigh_log(NIGH_LOG_WARN,
                 "cannot read %s (%s): addresses do not tell this machine from others: mount /proc, or do "
                 "not take addresses elsewhere",
                 path, bytes < 0 ? strerror(errno) : "empty");
    nigh_os_close(fd);
    return bytes > 0 ? hash(id, (size_t)bytes, 0) : 0;
}

static uint64_t find_network(void)
{
    static _Atomic(bool) said;
    static const char path[] = "/proc/self/ns/net";
    struct stat stat;
    int fd = nigh_os.open(path, O_RDONLY | O_CLOEXEC, 0);
    int error = fd < 0 ? -1 : nigh_os.fstat(fd, &stat);

    if (error < 0 && first_time(&said))
        nigh_log(NIGH_LOG_WARN,
                 "cannot look at %s (%s): addresses do not tell network namespaces apart: mount /proc, or "
                 "set NIGH_DIR",
                 path, strerror(errno));
    nigh_os_close(fd);
    return error < 0 ? 0 : hash(&stat.st_ino, sizeof(stat.st_ino), 1);
}

void nigh_place_find(const struct stat *directory, struct nigh_place *out)
{
    out->machine = find_machine();
    out->uid = geteuid();
    if (!directory)
        out->names = find_network();
    else /* by device and inode: a directory is the same under whatever path a container sees it */
        out->names = hash(&directory->st_ino, sizeof(directory->st_ino),
                          hash(&directory->st_dev, sizeof(directory->st_dev), 2));
}

void nigh_address_encode(const struct nigh_place *place, const struct nigh_identity *self,
                         struct nigh_address *out)
{
    struct record record = {
        .magic = MAGIC,
        .version = VERSION,
        .uid = place->uid,
        .machine = place->machine,
        .names = place->names,
        .job = self->job,
        .incarnation = self->incarnation,
        .rank = self->rank,
    };

    record.check = hash(&record, offsetof(struct record, check), 0);
    memcpy(out->bytes, &record, sizeof(record));
}

int nigh_address_decode(const struct nigh_place *here, const struct nigh_address *address,
                        struct nigh_identity *out)
{
    struct record record;

    memcpy(&record, address->bytes, sizeof(record));
    if (record.magic != MAGIC || record.version != VERSION || record.reserved != 0 ||
        record.incarnation == 0 || record.check != hash(&record, offsetof(struct record, check), 0))
        return -EBADMSG;
    if (record.machine != here->machine)
        return -EHOSTUNREACH;
    if (record.uid != here->uid)
        return -EACCES;
    if (record.names != here->names)
        return -EHOSTUNREACH;
    *out = (struct nigh_identity){.job = record.job, .incarnation = record.incarnation, .rank = record.rank};
    return 0;
}
