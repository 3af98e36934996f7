/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/fakeroot.h - a machine made of files: what nigh reads below /proc and /sys through the table of
 * shm/os.h comes from a folder of the test. */
#ifndef NIGH_TESTS_FAKEROOT_H
#define NIGH_TESTS_FAKEROOT_H

/* From now on nothing exists below /proc and /sys. */
void fakeroot_install(void);
/* Makes the file `path`, with the folders above it. */
void fakeroot_write(const char *path, const char *text);
/* The machine is the real one again; the files are gone. */
void fakeroot_remove(void);

#endif
