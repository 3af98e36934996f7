/* SPDX-License-Identifier: BSD-3-Clause */
/* Which CPU this is, against what the kernel says of it. */
#include "shm/cpu.h"
#include "shm/tune.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#if defined(__x86_64__)
/* Of the first line of /proc/cpuinfo that begins with `key` what follows the colon; "" without one. */
static void cpuinfo(const char *key, char *value, size_t bytes)
{
    FILE *file = fopen("/proc/cpuinfo", "r");
    char line[4096];
    const char *colon;

    value[0] = '\0';
    while (file && !value[0] && fgets(line, sizeof(line), file)) {
        colon = strchr(line, ':');
        if (colon && strncmp(line, key, strlen(key)) == 0)
            snprintf(value, bytes, "%s", colon + 1);
    }
    if (file)
        fclose(file);
}

/* AMD's family 25 is Zen 3 and, by its models, Zen 4. */
static enum nigh_cpu as_the_kernel_says(void)
{
    char vendor[64], family[16], number[16];
    int model;

    cpuinfo("vendor_id", vendor, sizeof(vendor));
    cpuinfo("cpu family", family, sizeof(family));
    cpuinfo("model\t", number, sizeof(number));
    assert_true(*number);
    model = atoi(number);
    if (strstr(vendor, "GenuineIntel"))
        return atoi(family) == 6 && (model == 143 || model == 207) ? NIGH_CPU_GOLDEN_COVE : NIGH_CPU_INTEL;
    if (strstr(vendor, "AuthenticAMD") && atoi(family) == 25 && (model < 16 || (model >= 32 && model < 96)))
        return NIGH_CPU_ZEN3;
    return NIGH_CPU_OTHER;
}
#else
static enum nigh_cpu as_the_kernel_says(void)
{
    return NIGH_CPU_OTHER;
}
#endif

static void known_by_its_numbers(void **state)
{
    (void)state;
    assert_int_equal(nigh_cpu(), as_the_kernel_says());
    assert_int_equal(nigh_cpu(), as_the_kernel_says()); /* as it was kept */
}

/* Of Intel's the cores of a socket have one L3, and their handoffs take longer than AMD's across two. */
static void intels_are_near_each_other(void **state)
{
    struct nigh_tune tune;
    enum nigh_cpu cpu = nigh_cpu();

    (void)state;
    nigh_tune_default(&tune);
    assert_int_equal(tune.far_ns, cpu == NIGH_CPU_INTEL || cpu == NIGH_CPU_GOLDEN_COVE ? 1000 : 160);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_by_its_numbers),
        cmocka_unit_test(intels_are_near_each_other),
    };

    return cmocka_run_group_tests_name("cpu", tests, NULL, NULL);
}
