// SPDX-License-Identifier: MIT
#include "readable.h"

#include <cmath>
#include <cstdio>
#include <ctime>

namespace freeway_profile {
namespace {

std::string with_unit(double value, const char* unit) {
  char text[64];
  const double size = std::abs(value);
  std::snprintf(text, sizeof(text), "%.*f %s", size < 9.995 ? 2 : size < 99.95 ? 1 : 0, value, unit);
  return text;
}

// Bytes of the character that begins at `place`; 0 if none does.
std::size_t length_of_character(const std::string& text, std::size_t place) {
  const auto byte = [&](std::size_t i) {
    return place + i < text.size() ? static_cast<unsigned char>(text[place + i]) : 0u;
  };
  const unsigned first = byte(0), second = byte(1);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  const bool is_overlong = first < 0xc2 || (first == 0xe0 && second < 0xa0) || (first == 0xf0 && second < 0x90);
  const bool is_none = (first == 0xed && second >= 0xa0) || (first == 0xf4 && second >= 0x90) || first > 0xf4;
  return is_overlong || is_none ? 0 : length;
}

}  // namespace

std::string hexadecimal(std::uint64_t number) {
  char text[24];
  std::snprintf(text, sizeof(text), "0x%llx", static_cast<unsigned long long>(number));
  return text;
}

std::string bytes_in_words(double bytes) {
  constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB"};
  if (std::abs(bytes) < 999.5) return std::to_string(std::llround(bytes)) + " B";
  std::size_t unit = 0;
  bytes /= 1024;
  for (; std::abs(bytes) >= 999.5 && unit + 1 < sizeof(kUnits) / sizeof(kUnits[0]); ++unit) bytes /= 1024;
  return with_unit(bytes, kUnits[unit]);
}

std::string count_in_words(double count) {
  char digits[400];
  std::snprintf(digits, sizeof(digits), "%.0f", count);
  const std::string all = digits;
  std::string text;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i > 0 && all[i - 1] != '-' && (all.size() - i) % 3 == 0) text += ',';
    text += all[i];
  }
  return text;
}

std::string time_in_words(double milliseconds) {
  if (milliseconds < 999.5) return std::to_string(std::llround(milliseconds)) + " ms";
  const double seconds = milliseconds / 1000;
  if (seconds < 99.95) return with_unit(seconds, "s");
  if (seconds < 5999) return with_unit(seconds / 60, "min");
  if (seconds < 172'800) return with_unit(seconds / 3600, "h");
  return with_unit(seconds / 86'400, "d");
}

std::string date_in_words(std::uint64_t since_1970_ns) {
  const std::time_t seconds = static_cast<std::time_t>(since_1970_ns / 1'000'000'000);
  std::tm parts = {};
  char text[64] = "";
  if (gmtime_r(&seconds, &parts) != nullptr) std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S UTC", &parts);
  return text;
}

std::string percent(double part, double whole) { return whole == 0 ? "" : with_unit(100 * part / whole, "%"); }

// Overlong forms and surrogates are no UTF-8, either.
std::string valid_utf8(const std::string& text) {
  std::string valid;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = length_of_character(text, i);
    valid += length == 0 ? "?" : text.substr(i, length);
    i += length == 0 ? 1 : length;
  }
  return valid;
}

}  // namespace freeway_profile
