// SPDX-License-Identifier: MIT
//
// proof.h: what a test has tried, in numbers, for the page docs/proof.md.
//
//     proof("instructions", "malloc, slow path", "boundaries visited", 812);
//
// Prints the figure, and appends it as one JSON line to the file that $FREEWAY_PROOF_FILE names (tools/proof sets it
// and makes the page). Callable in signal handlers and in forked children: one write(2) a figure, no allocation, no
// stdio.
//
//   area     a heading of the page: models, mutants, instructions, sections, stops and kills, forks, system calls,
//            bad input, fuzzing, machines, steps
//   subject  a row: what was tried
//   what     a column: what was counted, in the plural; the same words wherever it is the same thing
//   count    figures of the same area, subject, what and test are added up; of proof_most, the largest counts
#ifndef FREEWAY_TESTS_PROOF_H
#define FREEWAY_TESTS_PROOF_H

#include <fcntl.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>

namespace freeway::test {

namespace proof_detail {

// Text for one write, in place; what does not fit is cut.
class Text {
 public:
  Text& raw(const char* s) {
    while (*s != '\0') put(*s++);
    return *this;
  }
  // A JSON string: quotes and backslashes escaped, control characters left out.
  Text& quoted(const char* s) {
    put('"');
    for (; *s != '\0'; ++s) {
      if (*s == '"' || *s == '\\') put('\\');
      if (static_cast<unsigned char>(*s) >= ' ') put(*s);
    }
    put('"');
    return *this;
  }
  Text& number(std::uint64_t value) {
    char digits[20];
    int n = 0;
    do digits[n++] = static_cast<char>('0' + value % 10);
    while ((value /= 10) != 0);
    while (n > 0) put(digits[--n]);
    return *this;
  }
  void write_to(int fd) const { [[maybe_unused]] const ssize_t written = ::write(fd, text_, used_); }

 private:
  void put(char c) {
    if (used_ < sizeof text_) text_[used_++] = c;
  }
  char text_[1000];
  std::size_t used_ = 0;
};

inline void write_figure(const char* area, const char* subject, const char* what, const char* key,
                         std::uint64_t count) {
  Text()
      .raw("  proof: ")
      .raw(area)
      .raw(": ")
      .raw(subject)
      .raw(": ")
      .number(count)
      .raw(" ")
      .raw(what)
      .raw("\n")
      .write_to(1);
  const char* const path = std::getenv("FREEWAY_PROOF_FILE");
  if (path == nullptr) return;
  const char* const test = std::getenv("FREEWAY_TEST_NAME");
  const int fd = ::open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0) return;
  Text()
      .raw("{\"test\": ")
      .quoted(test != nullptr ? test : "")
      .raw(", \"area\": ")
      .quoted(area)
      .raw(", \"subject\": ")
      .quoted(subject)
      .raw(", \"what\": ")
      .quoted(what)
      .raw(", \"")
      .raw(key)
      .raw("\": ")
      .number(count)
      .raw("}\n")
      .write_to(fd);
  ::close(fd);
}

}  // namespace proof_detail

inline void proof(const char* area, const char* subject, const char* what, std::uint64_t count) {
  proof_detail::write_figure(area, subject, what, "count", count);
}
inline void proof_most(const char* area, const char* subject, const char* what, std::uint64_t count) {
  proof_detail::write_figure(area, subject, what, "most", count);
}

}  // namespace freeway::test

#endif  // FREEWAY_TESTS_PROOF_H
