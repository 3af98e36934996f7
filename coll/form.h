/* SPDX-License-Identifier: BSD-3-Clause */
/* coll/form.h - how the members of a group meet: each shows its board under a key that all can compute, and looks for the
 * others'. */
#ifndef NIGH_COLL_FORM_H
#define NIGH_COLL_FORM_H

#include "coll/group.h"

/* Takes the memory that the meeting needs. -ENOMEM: the group has some of it. */
int nigh_form_prepare(struct nigh_group *group);
/* Moves a group on that is forming. */
bool nigh_form_progress(struct nigh_group *group);
/* Looks for the boards that were not found yet, of a group that has a key. True: all are found. */
bool nigh_form_find(struct nigh_group *group);
/* Meets a member if that is possible now, and has not been done. */
bool nigh_form_meet(struct nigh_group *group, uint32_t member);
void nigh_form_forget(struct nigh_coll *coll);

#endif
