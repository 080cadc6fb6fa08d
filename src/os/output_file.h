// SPDX-License-Identifier: MIT
// output_file.h: the only ways in which a file is opened for writing: by its name, which others may know beforehand.
//
// What lies at a name may be another user's work: a link to a file that he wants spoilt, a file of his own that he wants to
// read, a pipe that nobody empties. Names are of two kinds:
//
//   fresh    made up by the library (PREFIX.PID.N.heap): nothing may be there, else the next number is taken
//   chosen   by the user (FREEWAY_STATS=json:PATH): what is there is written over, if it is his
//
// Of a chosen name, and of what is there:
//
//   nothing                a new file, of `mode` less the umask
//   a file                 written over; another user's: -EPERM; one that has other names, too: -EMLINK
//   a symbolic link        this user's, or root's: followed, and the same asked of what it leads to; another's: -ELOOP
//   a named pipe           this user's, that somebody reads: written to; that nobody reads: -ENXIO, at once; another's: -EPERM
//   a character device     written to
//   a folder, a socket, a block device    an error
//   /dev/stdout, /dev/stderr              nothing is opened: the descriptor that is there, at its place in the file
//
// This user is the effective one. All functions are signal-safe, keep errno, and return a descriptor that exec closes, or a
// negative errno. None waits.
//
// Checked   tests/outputs
#pragma once

#include <errno.h>

#include "base/integers.h"

namespace freeway::output_file {

constexpr u32 kOwnersAlone = 0600;  // of profiles: copies of stacks hold what the program knows
constexpr u32 kForAll = 0644;

// A file where nothing was; else -EEXIST.
long create(const char* path, u32 mode);
// What is to be written at a chosen name, empty.
long open_chosen(const char* path, u32 mode);

// A file at the first of the names next(), next(), ... where nothing is.
template <class Next>
long create_first(u32 mode, Next&& next) {
  constexpr int kMostNames = 1000;
  long file = -EEXIST;
  for (int i = 0; i < kMostNames && file == -EEXIST; ++i) file = create(next(), mode);
  return file;
}

}  // namespace freeway::output_file
