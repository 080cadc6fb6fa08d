// SPDX-License-Identifier: MIT
#include "os/output_file.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "os/syscall.h"

namespace freeway::output_file {
namespace {

constexpr u64 kHere = static_cast<u64>(AT_FDCWD);
// So that no open waits for a pipe's reader or the holder of a lease, or makes the file the process's terminal.
constexpr u64 kAlways = O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;

long open(const char* path, u64 flags, u32 mode) {
  return raw_syscall(SYS_openat, kHere, reinterpret_cast<u64>(path), kAlways | flags, mode);
}

u64 user() { return static_cast<u64>(raw_syscall(SYS_geteuid)); }

// Whether the open file may be written over; 0 or a negative errno.
long judge(const struct stat& found) {
  switch (found.st_mode & S_IFMT) {
    case S_IFREG: return found.st_uid != user() ? -EPERM : found.st_nlink > 1 ? -EMLINK : 0;
    case S_IFIFO: return found.st_uid != user() ? -EPERM : 0;
    case S_IFCHR: return 0;  // only root makes those
    default: return -EPERM;
  }
}

long make_ready(u64 file) {
  struct stat found;
  long error = raw_syscall(SYS_fstat, file, reinterpret_cast<u64>(&found));
  if (error == 0) error = judge(found);
  if (error == 0 && (found.st_mode & S_IFMT) == S_IFREG) error = raw_syscall(SYS_ftruncate, file, 0);
  if (error == 0) error = raw_syscall(SYS_fcntl, file, F_SETFL, 0);  // a reader may be slow
  return error;
}

// An opened file does not tell the owner of the link that led to it. Another user who can replace this user's link
// between question and answer can write to its folder, as its owner can.
long open_link(const char* path, u32 mode) {
  struct stat link;
  const long error = raw_syscall(SYS_newfstatat, kHere, reinterpret_cast<u64>(path), reinterpret_cast<u64>(&link),
                                 AT_SYMLINK_NOFOLLOW);
  if (error != 0) return error;
  return link.st_uid == 0 || link.st_uid == user() ? open(path, O_CREAT, mode) : -ELOOP;
}

long standard(const char* path) {
  return strcmp(path, "/dev/stdout") == 0 ? 1 : strcmp(path, "/dev/stderr") == 0 ? 2 : -1;
}

}  // namespace

long create(const char* path, u32 mode) { return open(path, O_CREAT | O_EXCL | O_NOFOLLOW, mode); }

long open_chosen(const char* path, u32 mode) {
  if (const long fd = standard(path); fd >= 0) return raw_syscall(SYS_fcntl, static_cast<u64>(fd), F_DUPFD_CLOEXEC, 0);
  long file = create(path, mode);
  if (file != -EEXIST) return file;
  file = open(path, O_NOFOLLOW, 0);
  if (file == -ELOOP) file = open_link(path, mode);
  if (file < 0) return file;
  const long error = make_ready(static_cast<u64>(file));
  if (error == 0) return file;
  raw_syscall(SYS_close, static_cast<u64>(file));
  return error;
}

}  // namespace freeway::output_file
