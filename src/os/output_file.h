// SPDX-License-Identifier: MIT
// output_file.h: the only ways to open a file for writing: by its name, which others may know beforehand.
//
// Another user may have put something at a name: a link to a file that is to be spoilt, a file of that user's that is
// to receive the data, a pipe that is never emptied. Names are of two kinds:
//
//   fresh    made up by the library (PREFIX.PID.N.heap): nothing may be there, else the next number is taken
//   chosen   by the user (FREEWAY_STATS=json:PATH): an existing file is written over, if it is the user's
//
// At a chosen name there may be:
//
//   nothing                a new file, of `mode` less the umask
//   a file                 written over; another user's: -EPERM; one that has other names, too: -EMLINK
//   a symbolic link        this user's, or root's: followed, and its target judged the same way; another's: -ELOOP
//   a named pipe           this user's, with a reader: written to; without a reader: -ENXIO, at once; another's: -EPERM
//   a character device     written to
//   a folder, a socket, a block device    an error
//   /dev/stdout, /dev/stderr              nothing is opened: that descriptor, at its place in the file
//
// This user is the effective one. All functions are signal-safe, keep errno, and return a descriptor that exec closes,
// or a negative errno. None waits.
//
// Checked   tests/os/outputs
#pragma once

#include <errno.h>

#include "base/integers.h"

namespace freeway::output_file {

constexpr u32 kOwnersAlone = 0600;  // for profiles: copies of stacks hold the program's data
constexpr u32 kForAll = 0644;

// A new file; -EEXIST if something is there.
long create(const char* path, u32 mode);
// Opens a chosen name for writing, empty.
long open_chosen(const char* path, u32 mode);

// A new file at the first of the names next(), next(), ... that is free.
template <class Next> long create_first(u32 mode, Next&& next) {
  constexpr int kMostNames = 1000;
  long file = -EEXIST;
  for (int i = 0; i < kMostNames && file == -EEXIST; ++i) file = create(next(), mode);
  return file;
}

}  // namespace freeway::output_file
