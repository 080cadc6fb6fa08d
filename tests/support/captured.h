// SPDX-License-Identifier: MIT
//
// captured.h: what a function writes to a file descriptor.
#ifndef FREEWAY_TESTS_UNIT_CAPTURED_H
#define FREEWAY_TESTS_UNIT_CAPTURED_H

#include <sys/mman.h>
#include <unistd.h>

#include <string>

namespace freeway::test {

// Everything that `f` writes to `fd`, through any copy of it.
template <class F> std::string captured(int fd, F&& f) {
  const int file = memfd_create("captured", 0), saved = dup(fd);
  dup2(file, fd);
  f();
  dup2(saved, fd);
  close(saved);
  std::string text(static_cast<std::size_t>(lseek(file, 0, SEEK_END)), 0);
  if (pread(file, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) text = "(unreadable)";
  close(file);
  return text;
}

}  // namespace freeway::test

#endif  // FREEWAY_TESTS_UNIT_CAPTURED_H
