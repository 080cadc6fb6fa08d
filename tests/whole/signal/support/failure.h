// SPDX-License-Identifier: MIT
//
// Failing a test from anywhere: a signal handler, a forked child of a threaded process, a thread whose neighbours are
// stopped. Nothing here allocates, takes a lock or uses stdio.
#ifndef FREEWAY_TESTS_SIGNAL_SUPPORT_FAILURE_H
#define FREEWAY_TESTS_SIGNAL_SUPPORT_FAILURE_H

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace freeway_test {

// One line of text, built on the stack and written with a single write(2), so that lines of processes do not mix.
class Line {
 public:
  Line& text(const char* s) {
    while (*s != '\0' && used_ < kRoom) buffer_[used_++] = *s++;
    return *this;
  }
  Line& number(uint64_t value, unsigned base = 10) {
    char digits[24];
    size_t count = 0;
    do digits[count++] = "0123456789abcdef"[value % base];
    while ((value /= base) != 0);
    while (count > 0 && used_ < kRoom) buffer_[used_++] = digits[--count];
    return *this;
  }
  Line& hex(uint64_t value) { return text("0x").number(value, 16); }
  // A figure and what it counts, as in "  1234 handlers".
  Line& count(uint64_t value, const char* what) { return text("  ").number(value).text(" ").text(what); }
  void write_to(int fd) {
    buffer_[used_] = '\n';
    size_t done = 0;
    while (done <= used_) {
      const ssize_t n = ::write(fd, buffer_ + done, used_ + 1 - done);
      if (n <= 0) return;
      done += static_cast<size_t>(n);
    }
  }

 private:
  static constexpr size_t kRoom = 500;
  size_t used_ = 0;
  char buffer_[kRoom + 1];
};

// Where a test with many steps is; told when it fails or crashes.
inline const char* volatile failure_context = nullptr;
inline volatile uint64_t failure_offset = 0;
inline void write_failure_context() {
  if (failure_context != nullptr)
    Line().text("while at ").text(failure_context).text("+").hex(failure_offset).write_to(2);
}

// Two figures tell what was seen; what they are is said in `what`.
[[noreturn]] inline void fail(const char* what, uint64_t a = 0, uint64_t b = 0) {
  Line().text("FAILED: ").text(what).text(" (").number(a).text(", ").number(b).text(" = ").hex(b).text(")").write_to(2);
  write_failure_context();
  ::abort();
}

inline void require(bool holds, const char* what, uint64_t a = 0, uint64_t b = 0) {
  if (!holds) [[unlikely]]
    fail(what, a, b);
}

// Ends a case that this machine cannot run; ctest shows it as skipped.
constexpr int kSkipStatus = 77;
[[noreturn]] inline void skip(const char* why) {
  Line().text("skipped: ").text(why).write_to(1);
  ::_exit(kSkipStatus);
}

}  // namespace freeway_test
#endif
