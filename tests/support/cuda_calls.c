/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/cuda_calls.c - see cuda_calls.h. */
#include "tests/support/cuda_calls.h"

#include <stdio.h>
#include <string.h>

static const char *failing;
static int failing_in = -1;

static struct {
    char name[40];
    unsigned count;
} called[40];

bool cuda_call_fails(const char *call)
{
    int i = 0;

    while (called[i].count && strcmp(called[i].name, call) != 0)
        i++;
    snprintf(called[i].name, sizeof(called[i].name), "%s", call);
    called[i].count++;
    return failing && strcmp(failing, call) == 0 && failing_in-- == 0;
}

void cuda_fail_once(const char *call, unsigned after)
{
    failing = call;
    failing_in = (int)after;
}

unsigned cuda_calls(const char *call)
{
    unsigned sum = 0;

    for (int i = 0; called[i].count; i++)
        if (!call || strcmp(called[i].name, call) == 0)
            sum += called[i].count;
    return sum;
}
