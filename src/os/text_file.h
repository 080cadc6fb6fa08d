// SPDX-License-Identifier: MIT
// text_file.h: a file of the kernel's (/proc, /sys), by open, read and close alone. Signal-safe; little on the stack.
#pragma once

#include <fcntl.h>

#include "base/compiler.h"
#include "os/syscall.h"

namespace freeway {

class TextFile {
 public:
  explicit TextFile(const char* path)
      : file_(raw_syscall(SYS_openat, static_cast<u64>(AT_FDCWD), reinterpret_cast<u64>(path), O_RDONLY | O_CLOEXEC)) {}
  ~TextFile() {
    if (file_ >= 0) raw_syscall(SYS_close, static_cast<u64>(file_));
  }
  TextFile(const TextFile&) = delete;

  // The next piece, of at most `size` bytes; how many. 0: there is no more, or it cannot be read.
  std::size_t read(char* piece, std::size_t size) {
    const long got = file_ < 0 ? 0 : raw_syscall(SYS_read, static_cast<u64>(file_), reinterpret_cast<u64>(piece), size);
    return got < 0 ? 0 : static_cast<std::size_t>(got);
  }

 private:
  long file_;
};

// The same, line by line.
class TextLines {
 public:
  explicit TextLines(const char* path) : file_(path) {}

  // The next line, without its end, into `line`; a line that is too long is cut off. False: there is none.
  FREEWAY_NOINLINE bool next(char* line, std::size_t size) {
    std::size_t length = 0;
    bool any = false;
    for (int c; (c = byte()) >= 0;) {
      any = true;
      if (c == '\n') break;
      if (length + 1 < size) line[length++] = static_cast<char>(c);
    }
    line[length] = 0;
    return any;
  }

 private:
  int byte() {
    if (at_ == end_) {
      at_ = 0;
      end_ = file_.read(piece_, sizeof(piece_));
      if (end_ == 0) return -1;
    }
    return static_cast<unsigned char>(piece_[at_++]);
  }

  TextFile file_;
  std::size_t at_ = 0, end_ = 0;
  char piece_[128];
};

}  // namespace freeway
