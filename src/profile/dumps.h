// SPDX-License-Identifier: MIT
// dumps.h: the dumps that FREEWAY_PROFILE asks for: at exit, on a signal, each time so much was allocated; and the wait at exit
// for whoever looks into this process from outside (`freeway run --leaks`).
//
// Files     PREFIX.PID.NUMBER.heap, counted from 1 in each process; numbers that are taken are passed over (os/output_file.h)
// Words     number: up one for each name. volume: bytes that the samples stand for; due: the volume from which on the next dump is
//           made -> one step further (CAS): who wins makes it, in the middle of its malloc
// Holding   who holds waits for the other end of a connection, and for nothing else: where nobody listens, or he goes, it goes on
// Lost if killed: a file that is written in part
#pragma once

#include "base/integers.h"

namespace freeway::profile {

// Reads the setting: the interval of the profile that is wanted from the start; 0: none. Complains of one that it does not
// understand. May be called by several at once.
u64 read_setting();

// Also holds, if that is wanted.
void dump_at_exit();
// A sample was taken that stands for so many bytes.
void dump_if_due(u64 bytes);

}  // namespace freeway::profile
