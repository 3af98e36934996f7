/* SPDX-License-Identifier: BSD-3-Clause */
/* nigh-perf on a machine whose L never rests, as virtual CPUs on a loaded host can be: linked in place of the probe
 * (-Wl,--wrap), it doubles every second value. */
#include "tools/perf/floors.h"

double __real_perf_handoff_probe(struct perf_rank *me, uint32_t count);
double __wrap_perf_handoff_probe(struct perf_rank *me, uint32_t count);

double __wrap_perf_handoff_probe(struct perf_rank *me, uint32_t count)
{
    static uint32_t probes;

    __real_perf_handoff_probe(me, count); /* both ranks keep count of their turns */
    return probes++ % 2 ? 50 : 250;
}
