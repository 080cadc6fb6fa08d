// SPDX-License-Identifier: MIT
#include "os/report.h"

#include <signal.h>
#include <stdlib.h>

#include "base/check.h"
#include "os/process.h"
#include "os/syscall.h"

namespace freeway {

Line& Line::text(const char* s) {
  while (*s != 0) put(*s++);
  return *this;
}

Line& Line::quoted(const char* s, std::size_t most) {
  for (; *s != 0; ++s) {
    if (most-- == 0) return text("...");
    const bool control = static_cast<unsigned char>(*s) < ' ' || *s == 0x7f;
    put(control ? '?' : *s);
  }
  return *this;
}

Line& Line::string(const char* s, std::size_t most) {
  put('"');
  for (; *s != 0 && most-- != 0; ++s) {
    if (*s == '"' || *s == '\\') put('\\');
    put(*s < ' ' || *s > '~' ? '?' : *s);
  }
  put('"');
  return *this;
}

// Moves the text from `from` on to the right, up to `width` characters.
void Line::pad(std::size_t from, std::size_t width) {
  std::size_t length = used_ - from;
  if (length >= width || from + width >= sizeof(buffer_)) return;
  std::size_t shift = width - length;
  for (std::size_t i = length; i-- > 0;) buffer_[from + shift + i] = buffer_[from + i];
  for (std::size_t i = 0; i < shift; ++i) buffer_[from + i] = ' ';
  used_ = from + width;
}

Line& Line::number(u64 value, std::size_t width) {
  std::size_t start = used_;
  char digits[20];
  int n = 0;
  do digits[n++] = static_cast<char>('0' + value % 10);
  while ((value /= 10) != 0);
  while (n > 0) put(digits[--n]);
  pad(start, width);
  return *this;
}

Line& Line::hex(u64 value) {
  put('0');
  put('x');
  unsigned shift = 60;
  while (shift > 0 && (value >> shift) == 0) shift -= 4;
  for (;; shift -= 4) {
    put("0123456789abcdef"[(value >> shift) & 15]);
    if (shift == 0) return *this;
  }
}

Line& Line::bytes(u64 value, std::size_t width) {
  std::size_t start = used_;
  static constexpr char kUnits[][5] = {" B", " KiB", " MiB", " GiB", " TiB"};
  unsigned unit = 0;
  u64 tenths = value * 10;
  while (tenths >= 10240 && unit < 4) {
    tenths /= 1024;
    ++unit;
  }
  number(tenths / 10);
  if (unit > 0) {
    put('.');
    number(tenths % 10);
  }
  text(kUnits[unit]);
  pad(start, width);
  return *this;
}

long Line::write(int fd) {
  buffer_[used_++] = '\n';
  const long error = write_all(fd, buffer_, used_);
  used_ = 0;
  return error;
}

long write_all(int fd, const char* data, std::size_t bytes) {
  constexpr long kInterrupted = -4;  // -EINTR
  while (bytes > 0) {
    long done = raw_syscall(SYS_write, static_cast<u64>(fd), reinterpret_cast<u64>(data), bytes);
    if (done == kInterrupted) continue;
    if (done <= 0) return done;
    data += done;
    bytes -= static_cast<std::size_t>(done);
  }
  return 0;
}

void die() {
  // abort would run a handler of the program's here.
  constexpr u64 kDefault[4] = {};  // the kernel's struct sigaction
  if (process::is_bare()) raw_syscall(SYS_rt_sigaction, SIGABRT, reinterpret_cast<u64>(kDefault), 0, sizeof(u64));
  abort();
  __builtin_trap();
}

void check_failed(const char* condition, const char* file, int line) {
  Line()
      .text("freeway: internal error: ")
      .text(condition)
      .text(" is false, ")
      .text(file)
      .text(":")
      .number(static_cast<u64>(line))
      .write();
  die();
}

}  // namespace freeway
