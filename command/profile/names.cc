// SPDX-License-Identifier: MIT
#include "names.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string_view>

#include "rust_names.h"

namespace freeway_profile {
namespace {

// Copies that compilers make of a function, and versions of a library's symbol.
constexpr std::string_view kAdditions[] = {"@",     ".constprop.", ".isra.", ".part.",
                                           ".cold", ".lto_priv.",  ".llvm.", ".localalias"};

bool opens(char c) { return c == '(' || c == '<' || c == '[' || c == '{'; }
bool closes(char c) { return c == ')' || c == '>' || c == ']' || c == '}'; }

// "void grow<int>(int) const" without "(int) const"; as it is, if it does not end with parameters.
std::string_view without_parameters(std::string_view name) {
  const std::size_t last = name.rfind(')');
  if (last == name.npos || name.substr(last).find_first_of(">}") != name.npos) return name;
  int depth = 0;
  for (std::size_t i = last + 1; i-- > 0;) {
    if (name[i] == ')') ++depth;
    if (name[i] == '(' && --depth == 0) return i == 0 ? name : name.substr(0, i);
  }
  return name;
}

// Functions made from templates have their result before their name.
std::string_view without_result(std::string_view name) {
  const std::size_t end = std::min(name.find("operator"), name.size());
  std::size_t begin = 0;
  int depth = 0;
  for (std::size_t i = 0; i < end; ++i) {
    if (opens(name[i])) ++depth;
    if (closes(name[i]) && depth > 0) --depth;
    if (name[i] == ' ' && depth == 0) begin = i + 1;
  }
  return name.substr(begin);
}

// std::string under the name that people know.
std::string with_short_strings(std::string name) {
  constexpr std::string_view kLong = "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >";
  for (std::size_t place; (place = name.find(kLong)) != name.npos;) name.replace(place, kLong.size(), "std::string");
  return name;
}

// Rust's older symbols look like C++'s: "_$LT$u8$u20$as$u20$core..fmt..Debug$GT$::fmt::h0123456789abcdef" is
// "<u8 as core::fmt::Debug>::fmt". Nothing if there is no such hash at the end.
std::optional<std::string> older_rust_name(std::string_view name) {
  constexpr std::size_t kHash = 3 + 16;
  if (name.size() <= kHash) return {};
  const std::string_view hash = name.substr(name.size() - kHash);
  if (!hash.starts_with("::h") || hash.find_first_not_of("0123456789abcdef", 3) != hash.npos) return {};
  name.remove_suffix(kHash);
  constexpr std::string_view kEscapes[][2] = {
      {"::", "::"},    {"..", "::"},    {"$LT$", "<"},   {"$GT$", ">"},   {"$RF$", "&"},   {"$BP$", "*"},   {"$LP$", "("},
      {"$RP$", ")"},   {"$C$", ","},    {"$SP$", "@"},   {"$u20$", " "},  {"$u22$", "\""}, {"$u27$", "'"},  {"$u2b$", "+"},
      {"$u3b$", ";"},  {"$u5b$", "["},  {"$u5d$", "]"},  {"$u7b$", "{"},  {"$u7d$", "}"},  {"$u7e$", "~"}};
  std::string plain;
  while (!name.empty()) {
    // No identifier begins with an escape.
    if ((plain.empty() || plain.ends_with("::")) && name.starts_with("_$")) name.remove_prefix(1);
    const auto* const escape =
        std::find_if(std::begin(kEscapes), std::end(kEscapes), [name](const auto& each) { return name.starts_with(each[0]); });
    const bool found = escape != std::end(kEscapes);
    plain += found ? (*escape)[1] : name.substr(0, 1);
    name.remove_prefix(found ? (*escape)[0].size() : 1);
  }
  return plain;
}

}  // namespace

std::string name_of_symbol(const std::string& symbol) {
  std::string plain = symbol;
  for (const std::string_view addition : kAdditions)
    if (const std::size_t place = plain.find(addition); place != plain.npos && place != 0) plain.resize(place);
  if (plain.starts_with("_R")) return rust_name(plain).value_or(plain);
  if (!plain.starts_with("_Z")) return plain;
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(abi::__cxa_demangle(plain.c_str(), nullptr, nullptr, &status),
                                                         std::free);
  if (!text) return plain;
  if (std::optional<std::string> rust = older_rust_name(text.get())) return *rust;
  return with_short_strings(std::string(without_result(without_parameters(text.get()))));
}

}  // namespace freeway_profile
