/* SPDX-License-Identifier: BSD-3-Clause */
/* csrc/adapter.cc - all that includes torch's headers, as one unit: they take half a minute to read. */
#include "collective.cc"
#include "group.cc"
#include "group_collectives.cc"
#include "meet.cc"
#include "memory.cc"
#include "message.cc"
#include "module.cc"
#include "stage.cc"
#include "stall.cc"
#include "state.cc"
#include "words.cc"
#include "work.cc"
