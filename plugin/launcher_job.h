/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plugin/launcher_job.h - a job's id from what all its processes have in common and two jobs on one machine have not:
 * one function per launcher, private to launcher.c.
 */
#ifndef NIGH_PLUGIN_LAUNCHER_JOB_H
#define NIGH_PLUGIN_LAUNCHER_JOB_H

#include "plugin/launcher.h"

/* An id in the making. */
struct nigh_launcher_job {
    uint64_t hash;
    size_t length;                     /* of text */
    char text[NIGH_LAUNCH_TEXT_BYTES]; /* what went in, cut where too long */
};

/* Start an id; jobs of different launchers differ from here on. */
void nigh_launcher_job_begin(struct nigh_launcher_job *job, const char *launcher);

/* The id. Never 0. */
uint64_t nigh_launcher_job_end(const struct nigh_launcher_job *job);

/* Add what makes a job of this launcher unique. 0, or -EINVAL with `error` (NIGH_LAUNCH_ERROR_BYTES) written.
 * Any thread; none blocks. */
int nigh_launcher_job_openmpi(const struct nigh_launcher_source *source, struct nigh_launcher_job *job,
                              char *error);
int nigh_launcher_job_hydra(const struct nigh_launcher_source *source, struct nigh_launcher_job *job,
                            char *error);
int nigh_launcher_job_srun(const struct nigh_launcher_source *source, struct nigh_launcher_job *job,
                           char *error);
int nigh_launcher_job_torch(const struct nigh_launcher_source *source, struct nigh_launcher_job *job,
                            char *error);

/* The machine's answer to struct nigh_launcher_source.process, from /proc. */
int nigh_launcher_read_process(void *data, int32_t pid, struct nigh_launcher_process *out);

/* Write `error` (NIGH_LAUNCH_ERROR_BYTES) and return -EINVAL. */
int nigh_launcher_fail(char *error, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
