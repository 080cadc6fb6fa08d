// SPDX-License-Identifier: MIT
// file.h: Freeway's contract with the kernel about a file that several processes map (shared/): what file it is,
// mapping it, memory for its pages before they are touched, and locks that tell who is alive.
//
// All functions are signal-safe and keep errno. They return 0 (or what is said) or a negative errno.
//
// A *pulse* is a file description of its own which nothing but a mapping keeps open that no fork copies. A lock that it
// holds (of an open file description, on one byte) ends with the memory of the process: at its death, whatever of, and
// at exec. A child has neither. No file descriptor of the program's has to do with it: it may close all it likes. When
// the lock has gone, no thread of that process can write to the file any more.
// Only while a pulse is made, a descriptor and a mapping are there that a fork in another thread copies: then the lock
// lasts until that child has ended, too, or has called exec.
// Some file systems lie over others and map the file below (overlayfs): there a mapping keeps no description, and the
// lock ends with the descriptor. keeps_locks() tells.
#pragma once

#include "base/integers.h"

namespace freeway::shared_file {

struct Facts {
  u64 device, inode;
  u64 bytes;     // its length
  bool regular;  // a file, not a pipe, a folder …
  constexpr bool is_same(const Facts& other) const { return device == other.device && inode == other.inode; }
};
long find_facts(int fd, Facts& facts);

// Whether it is open for reading and writing.
bool is_for_both(int fd);
// Another descriptor for the same description, which exec closes.
long keep(int fd);
void close(int fd);
// A description of its own for the same file, open for reading and writing, which exec closes: its descriptor.
long open_again(int fd);

long read(int fd, void* to, std::size_t bytes, u64 offset);  // how many
// These two: beyond the process's limit -EFBIG and no signal.
long write(int fd, const void* from, std::size_t bytes, u64 offset);
// What is behind the first `kept` of the file's `now` bytes becomes zero, and the file `bytes` long; it stays longer
// where it may not shrink.
long clear(int fd, u64 kept, u64 now, u64 bytes);
// Forbids changes of the length, where it is a memfd that allows it.
void seal_length(int fd);

// Maps `bytes` of the file, readable and writable, at a multiple of 64 KiB, behind `before` bytes (a multiple of 64
// KiB) of private memory that is not accessible. `address`: of the file.
long map(int fd, u64 bytes, std::size_t before, uptr& address);
long unmap(uptr address, u64 bytes);
// Makes private memory accessible: zero; with `wiped`, zero in the child of a fork again.
long open_private(uptr address, std::size_t bytes, bool wiped);

// Gives all pages that the range lies in their memory, or blocks of the disk. The range begins `offset` bytes into the
// file, of which this is a mapping; `fd` may be another file's by now. False: there is no room; touching them could be
// a SIGBUS.
bool reserve(int fd, const Facts& file, uptr address, u64 offset, u64 bytes);
// Takes memory and blocks of these pages away: they read as zero, once they are reserved again. -EINVAL and
// -EOPNOTSUPP: that cannot be done here, and nothing was; after any other failure some of it may be gone.
long punch(uptr address, u64 bytes);

// A new pulse for the file. `fd`: for locks, closed by the caller as soon as it holds them.
struct Pulse {
  uptr mapping;
  int fd;
};
long make_pulse(int fd, Pulse& pulse);
void end_pulse(uptr mapping);
// Whether the lock of a pulse outlives its descriptor: 1 or 0. Nobody else may have a lock at `offset`.
long keeps_locks(int fd, u64 offset);

// A lock on one byte at `offset`, which may lie beyond the file's end, for the description: -EAGAIN if another one has
// it.
long lock(int fd, u64 offset);
long unlock(int fd, u64 offset);
// Whether a description other than that of `fd` has a lock there: 1 or 0.
long is_locked(int fd, u64 offset);

}  // namespace freeway::shared_file
