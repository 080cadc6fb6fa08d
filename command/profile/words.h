// SPDX-License-Identifier: MIT
// words.h: taking a line of text apart.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>
#include <system_error>

namespace freeway_profile {

// What is left of a line. Each function takes what it names from the front, or leaves the line as it is and says so.
class Words {
 public:
  explicit Words(std::string_view text) : rest_(text) {}

  std::string_view rest() const { return rest_; }
  bool at_end() {
    skip_blanks();
    return rest_.empty();
  }

  bool take(std::string_view text) {
    if (!rest_.starts_with(text)) return false;
    rest_.remove_prefix(text.size());
    return true;
  }

  // Digits and nothing before them; none if there are none, or the number is beyond 64 bits.
  std::optional<std::uint64_t> take_number(int base) {
    std::uint64_t number = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), number, base);
    if (error != std::errc()) return {};
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    return number;
  }

  // Up to the next blank; empty at the end.
  std::string_view take_word() {
    skip_blanks();
    const std::string_view word = rest_.substr(0, rest_.find_first_of(" \t"));
    rest_.remove_prefix(word.size());
    return word;
  }

  void skip_blanks() {
    while (!rest_.empty() && (rest_.front() == ' ' || rest_.front() == '\t')) rest_.remove_prefix(1);
  }

 private:
  std::string_view rest_;
};

}  // namespace freeway_profile
