// SPDX-License-Identifier: MIT
// dumps.h: the dumps of FREEWAY_PROFILE: at exit, on a signal, each time so much was allocated; and the wait at exit
// for a process that looks into this one (`freeway run --leaks`).
//
// Files     PREFIX.PID.NUMBER.heap, counted from 1 in each process; taken numbers are skipped (os/output_file.h)
// Words     number: up one for each name. volume: bytes that the samples stand for; due: the volume of the next dump
//           -> one step further (CAS): the thread that wins makes the dump, in the middle of its malloc
// Holding   waits for the other end of a connection, and for nothing else: if nobody listens, or the other end goes, it
//           ends
// Lost if killed: a file that is written in part
#pragma once

#include "base/integers.h"

namespace freeway::profile {

// Reads the setting. Returns the interval of the profile that is wanted from the start; 0: none. Complains of one that
// it does not understand. Several threads may call it at once.
u64 read_setting();

// Makes the dump at exit; also holds, if that is wanted.
void dump_at_exit();
// A sample was taken that stands for so many bytes.
void dump_if_due(u64 bytes);

}  // namespace freeway::profile
