// SPDX-License-Identifier: MIT
// punycode.h: letters of all alphabets, in ASCII (RFC 3492), as Rust's symbols have them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace freeway_profile {

// A character in UTF-8.
std::string utf8(char32_t c);

// What a name reads like whose encoding has '_' in the place of '-'. Nothing if it is none.
std::optional<std::string> punycode(std::string_view text);

}  // namespace freeway_profile
