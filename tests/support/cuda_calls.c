/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/cuda_calls.c - see cuda_calls.h. */
#include "tests/support/cuda_calls.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { CALLS_MOST = 256 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char failing[48];
static int failing_in = -1;

static struct {
    char name[48];
    unsigned count;
} called[CALLS_MOST];

bool cuda_call_fails(const char *call)
{
    bool fails;
    int i = 0;

    pthread_mutex_lock(&lock);
    while (called[i].count && strcmp(called[i].name, call) != 0)
        i++;
    snprintf(called[i].name, sizeof(called[i].name), "%s", call);
    called[i].count++;
    fails = strcmp(failing, call) == 0 && failing_in-- == 0;
    pthread_mutex_unlock(&lock);
    return fails;
}

void cuda_fail_once(const char *call, unsigned after)
{
    pthread_mutex_lock(&lock);
    snprintf(failing, sizeof(failing), "%s", call ? call : "");
    failing_in = (int)after;
    pthread_mutex_unlock(&lock);
}

unsigned cuda_calls(const char *call)
{
    unsigned sum = 0;

    pthread_mutex_lock(&lock);
    for (int i = 0; i < CALLS_MOST && called[i].count; i++)
        if (!call || strcmp(called[i].name, call) == 0)
            sum += called[i].count;
    pthread_mutex_unlock(&lock);
    return sum;
}
