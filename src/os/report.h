// SPDX-License-Identifier: MIT
// report.h: text to file descriptor 2 (or another), without stdio, allocation or locks. A full pipe may block the
// writer.
#pragma once

#include "base/integers.h"

namespace freeway {

// A line that is put together on the stack and written at once. Text that does not fit is cut off.
class Line {
 public:
  Line& text(const char* s);
  // Text of others: control characters as '?', and at most `most` characters, then "...".
  Line& quoted(const char* s, std::size_t most = 120);
  Line& string(const char* s, std::size_t most = 100);  // as a JSON string: all but plain ASCII as '?'
  Line& number(u64 value, std::size_t width = 0);       // decimal, padded on the left
  Line& hex(u64 value);                                 // 0x…
  Line& bytes(u64 value, std::size_t width = 0);        // 12.3 MiB, padded on the left
  // Writes the line and a newline to `fd`, and empties it. errno is kept. 0, or the error: write_all.
  long write(int fd = 2);
  const char* data() const { return buffer_; }
  std::size_t size() const { return used_; }

 private:
  void put(char c) {
    if (used_ < sizeof(buffer_) - 1) buffer_[used_++] = c;
  }
  void pad(std::size_t from, std::size_t width);
  char buffer_[320];
  std::size_t used_ = 0;
};

// Writes all of it, also when write() is interrupted or partial. Returns an error (negative), else 0.
long write_all(int fd, const char* data, std::size_t bytes);
[[noreturn]] void die();  // abort(), which may be caught, then a trap

}  // namespace freeway
