// SPDX-License-Identifier: MIT
#include "names.h"

#include <libiberty/demangle.h>
#include <setjmp.h>

#include <cstdlib>
#include <memory>
#include <string_view>

namespace freeway_profile {
namespace {

// Copies that compilers make of a function, and versions of a library's symbol.
constexpr std::string_view kAdditions[] = {"@",     ".constprop.", ".isra.", ".part.",
                                           ".cold", ".lto_priv.",  ".llvm.", ".localalias"};

// std::string under the name that people know.
std::string with_short_strings(std::string name) {
  constexpr std::string_view kLong = "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >";
  for (std::size_t place; (place = name.find(kLong)) != name.npos;) name.replace(place, kLong.size(), "std::string");
  return name;
}

// Of Rust's symbols, both kinds; empty: it is none. References to references may double a name with each letter, and
// the library would write it all: a name that is longer than this is none.
struct RustName {
  static constexpr std::size_t kLongest = 1 << 16;
  std::string text;
  jmp_buf too_long;
};

void append(const char* part, std::size_t length, void* to) {
  auto& name = *static_cast<RustName*>(to);
  if (name.text.size() + length > RustName::kLongest) longjmp(name.too_long, 1);
  name.text.append(part, length);
}

std::string rust_name(const std::string& symbol) {
  RustName name;
  if (setjmp(name.too_long) != 0) return {};
  return rust_demangle_callback(symbol.c_str(), DMGL_NO_OPTS, append, &name) != 0 ? name.text : std::string();
}

}  // namespace

std::string name_of_symbol(const std::string& symbol) {
  std::string plain = symbol;
  for (const std::string_view addition : kAdditions)
    if (const std::size_t place = plain.find(addition); place != plain.npos && place != 0) plain.resize(place);
  if (!plain.starts_with("_R") && !plain.starts_with("_Z")) return plain;
  if (std::string rust = rust_name(plain); !rust.empty()) return rust;
  const std::unique_ptr<char, decltype(&std::free)> text(cplus_demangle_v3(plain.c_str(), DMGL_NO_OPTS), std::free);
  return text ? with_short_strings(text.get()) : plain;
}

}  // namespace freeway_profile
