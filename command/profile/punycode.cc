// SPDX-License-Identifier: MIT
#include "punycode.h"

#include <algorithm>
#include <cstdint>

namespace freeway_profile {
namespace {

constexpr unsigned kNone = 36;

unsigned digit_value(char c) {
  if ('a' <= c && c <= 'z') return static_cast<unsigned>(c - 'a');
  return '0' <= c && c <= '9' ? static_cast<unsigned>(c - '0') + 26 : kNone;
}

}  // namespace

std::string utf8(char32_t c) {
  const auto tail = [c](int shift) { return static_cast<char>(0x80 | (c >> shift & 0x3f)); };
  if (c < 0x80) return {static_cast<char>(c)};
  if (c < 0x800) return {static_cast<char>(0xc0 | c >> 6), tail(0)};
  if (c < 0x10000) return {static_cast<char>(0xe0 | c >> 12), tail(6), tail(0)};
  return {static_cast<char>(0xf0 | c >> 18), tail(12), tail(6), tail(0)};
}

// What is ASCII comes first, then where to put which other characters, in numbers whose digits say where they end.
std::optional<std::string> punycode(std::string_view text) {
  if (std::any_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) >= 128; })) return {};
  const std::size_t end = text.rfind('_');
  std::u32string name;
  if (end != text.npos) name.assign(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(end));
  std::uint64_t c = 128, place = 0, bias = 72, damp = 700;
  for (std::size_t at = end == text.npos ? 0 : end + 1; at < text.size();) {
    const std::uint64_t before = place;
    for (std::uint64_t weight = 1, base = 36;; base += 36) {
      const std::uint64_t digit = at < text.size() ? digit_value(text[at++]) : kNone;
      const std::uint64_t threshold = base <= bias ? 1 : std::min<std::uint64_t>(base - bias, 26);
      if (digit == kNone || (place += digit * weight) > UINT32_MAX) return {};
      if (digit < threshold) break;
      if ((weight *= 36 - threshold) > UINT32_MAX) return {};
    }
    const std::uint64_t count = name.size() + 1;
    std::uint64_t delta = (place - before) / damp;
    delta += delta / count;
    for (bias = 0, damp = 2; delta > 455; bias += 36) delta /= 35;
    bias += 36 * delta / (delta + 38);
    c += place / count;
    place %= count;
    if (c > 0x10ffff || (0xd800 <= c && c < 0xe000)) return {};
    name.insert(name.begin() + static_cast<std::ptrdiff_t>(place++), static_cast<char32_t>(c));
  }
  std::string bytes;
  for (const char32_t each : name) bytes += utf8(each);
  return bytes;
}

}  // namespace freeway_profile
