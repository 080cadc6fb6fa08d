// SPDX-License-Identifier: MIT
// readable.h: numbers and names for people.
#pragma once

#include <cstdint>
#include <string>

namespace freeway_profile {

std::string hexadecimal(std::uint64_t number);           // "0x12ab"
std::string bytes_in_words(double bytes);                // "12.3 MiB"
std::string count_in_words(double count);                // "12,345"
std::string time_in_words(double milliseconds);          // "12.3 s"
std::string date_in_words(std::uint64_t since_1970_ns);  // "2026-11-22 03:45:01 UTC"
std::string percent(double part, double whole);          // "12.3 %"

// Names may be any bytes; protobuf and JSON want UTF-8. A byte that is none becomes a question mark.
std::string valid_utf8(const std::string& text);

}  // namespace freeway_profile
