// SPDX-License-Identifier: MIT
#include "names.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string_view>

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

}  // namespace

std::string name_of_symbol(const std::string& symbol) {
  std::string plain = symbol;
  for (const std::string_view addition : kAdditions)
    if (const std::size_t place = plain.find(addition); place != plain.npos && place != 0) plain.resize(place);
  if (!plain.starts_with("_Z")) return plain;
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(abi::__cxa_demangle(plain.c_str(), nullptr, nullptr, &status),
                                                         std::free);
  if (!text) return plain;
  return with_short_strings(std::string(without_result(without_parameters(text.get()))));
}

}  // namespace freeway_profile
