// SPDX-License-Identifier: MIT
// text.h: text put together on the stack, for where neither stdio nor memory may be asked for. What does not fit is
// left out.
#pragma once

#include <cstddef>
#include <cstdint>

namespace freeway_jemalloc {

class Text {
 public:
  Text& text(const char* words) {
    for (; *words != 0; ++words) put(*words);
    return *this;
  }
  Text& text(const char* words, std::size_t length) {
    for (std::size_t i = 0; i < length; ++i) put(words[i]);
    return *this;
  }
  Text& number(std::uint64_t value) {
    char digits[20];
    unsigned count = 0;
    do digits[count++] = static_cast<char>('0' + value % 10);
    while ((value /= 10) != 0);
    while (count != 0) put(digits[--count]);
    return *this;
  }
  const char* c_str() const { return text_; }

 private:
  void put(char c) {
    if (length_ + 1 < sizeof text_) text_[length_++] = c;
  }

  char text_[256] = {};
  std::size_t length_ = 0;
};

}  // namespace freeway_jemalloc
