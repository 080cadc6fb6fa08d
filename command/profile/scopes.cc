// SPDX-License-Identifier: MIT
// scopes.cc: dwarf_getscopes does not look into namespaces, where clang has the functions' code.
#include "scopes.h"

#include <dwarf.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "names.h"

namespace freeway_profile {
namespace {

constexpr int kDeepest = 100;  // scopes within each other; files may be wrong

// An attribute that a function's entry, or the one that it is a copy of, has.
std::string string_of(Dwarf_Die* function, unsigned name) {
  Dwarf_Attribute attribute;
  return text_of(dwarf_formstring(dwarf_attr_integrate(function, name, &attribute)));
}

int number_of(Dwarf_Die* entry, unsigned name) {
  Dwarf_Attribute attribute;
  Dwarf_Word value = 0;
  if (dwarf_formudata(dwarf_attr_integrate(entry, name, &attribute), &value) != 0) return 0;
  return static_cast<int>(value);
}

// The entry that has the function's name: it may be apart from those of its code.
Dwarf_Die named(Dwarf_Die entry) {
  for (int steps = 0; steps < 4 && !dwarf_hasattr(&entry, DW_AT_name); ++steps) {
    Dwarf_Attribute attribute;
    Dwarf_Die next;
    if (dwarf_attr(&entry, DW_AT_abstract_origin, &attribute) == nullptr &&
        dwarf_attr(&entry, DW_AT_specification, &attribute) == nullptr)
      break;
    if (dwarf_formref_die(&attribute, &next) == nullptr) break;
    entry = next;
  }
  // A member's place in its class is said where it is declared.
  Dwarf_Attribute attribute;
  Dwarf_Die declaration;
  if (dwarf_attr(&entry, DW_AT_specification, &attribute) != nullptr &&
      dwarf_formref_die(&attribute, &declaration) != nullptr)
    return declaration;
  return entry;
}

// Where nothing lies within anything else.
bool is_of_c(Dwarf_Die* entry) {
  Dwarf_Die unit;
  if (dwarf_diecu(entry, &unit, nullptr, nullptr) == nullptr) return false;
  const int language = dwarf_srclang(&unit);
  return language == DW_LANG_C89 || language == DW_LANG_C || language == DW_LANG_C99 || language == DW_LANG_C11;
}

// "space::Class::function", of functions that no linker knows.
std::string qualified_name(Dwarf_Die* function) {
  Dwarf_Die entry = named(*function);
  std::string name = text_of(dwarf_diename(&entry));
  Dwarf_Die* found = nullptr;
  const int count = name.empty() || is_of_c(&entry) ? 0 : dwarf_getscopes_die(&entry, &found);
  const std::unique_ptr<Dwarf_Die[], decltype(&std::free)> scopes(found, std::free);
  for (int i = 1; i < count; ++i) {
    const int tag = dwarf_tag(&scopes[i]);
    const std::string around = text_of(dwarf_diename(&scopes[i]));
    if (tag == DW_TAG_namespace) name = (around.empty() ? "(anonymous namespace)" : around) + "::" + name;
    else if (tag == DW_TAG_class_type || tag == DW_TAG_structure_type || tag == DW_TAG_union_type)
      name = (around.empty() ? "(anonymous class)" : around) + "::" + name;
  }
  return name;
}

Line line_of(Dwarf_Die* function) {
  Line line;
  line.symbol = string_of(function, DW_AT_linkage_name);
  if (line.symbol.empty()) line.symbol = string_of(function, DW_AT_MIPS_linkage_name);
  line.function = line.symbol.empty() ? qualified_name(function) : name_of_symbol(line.symbol);
  if (line.symbol.empty()) line.symbol = line.function;
  line.first_line = number_of(function, DW_AT_decl_line);
  return line;
}

// Where the function was called that is inlined here.
void set_call(Line& caller, Dwarf_Die* inlined) {
  Dwarf_Die unit;
  Dwarf_Files* files = nullptr;
  std::size_t count = 0;
  const int file = number_of(inlined, DW_AT_call_file);
  if (dwarf_diecu(inlined, &unit, nullptr, nullptr) != nullptr && dwarf_getsrcfiles(&unit, &files, &count) == 0 &&
      static_cast<std::size_t>(file) < count)
    caller.file = text_of(dwarf_filesrc(files, static_cast<std::size_t>(file), nullptr, nullptr));
  caller.line = number_of(inlined, DW_AT_call_line);
}

template <class Function> void for_each_child(Dwarf_Die* parent, const Function& function) {
  Dwarf_Die child;
  if (dwarf_child(parent, &child) != 0) return;
  do {
    if (!function(&child)) return;
  } while (dwarf_siblingof(&child, &child) == 0);
}

// The functions below `parent` that have code; classes and functions may have functions of their own.
void collect_functions(Dwarf_Die* parent, int depth, std::vector<CodeRange>& out) {
  for_each_child(parent, [depth, &out](Dwarf_Die* child) {
    switch (dwarf_tag(child)) {
      case DW_TAG_subprogram: add_ranges(child, out); [[fallthrough]];
      case DW_TAG_namespace:
      case DW_TAG_module:
      case DW_TAG_class_type:
      case DW_TAG_structure_type:
      case DW_TAG_union_type:
      case DW_TAG_lexical_block:
        if (depth < kDeepest) collect_functions(child, depth + 1, out);
        break;
      default: break;
    }
    return true;
  });
}

}  // namespace

std::string text_of(const char* text) { return text == nullptr ? "" : text; }

void add_ranges(Dwarf_Die* entry, std::vector<CodeRange>& out) {
  Dwarf_Addr base, low, high;
  for (std::ptrdiff_t next = 0; (next = dwarf_ranges(entry, next, &base, &low, &high)) > 0;)
    out.push_back({low, high, *entry});
}

void sort_ranges(std::vector<CodeRange>& ranges) {
  std::sort(ranges.begin(), ranges.end(), [](const CodeRange& a, const CodeRange& b) { return a.low < b.low; });
}

const CodeRange* range_around(const std::vector<CodeRange>& ranges, Dwarf_Addr address) {
  auto behind = std::upper_bound(ranges.begin(), ranges.end(), address,
                                 [](Dwarf_Addr value, const CodeRange& range) { return value < range.low; });
  if (behind == ranges.begin()) return nullptr;
  const CodeRange& found = *--behind;
  return address < found.high ? &found : nullptr;
}

std::vector<CodeRange> functions_of(Dwarf_Die* unit) {
  std::vector<CodeRange> functions;
  collect_functions(unit, 0, functions);
  sort_ranges(functions);
  return functions;
}

std::vector<Line> lines_around(Dwarf_Die function, Dwarf_Addr address) {
  std::vector<Line> lines = {line_of(&function)};
  Dwarf_Die scope = function;
  for (int depth = 0; depth < kDeepest; ++depth) {
    bool found = false;
    for_each_child(&scope, [&](Dwarf_Die* child) {
      const int tag = dwarf_tag(child);
      const bool is_scope = tag == DW_TAG_inlined_subroutine || tag == DW_TAG_lexical_block ||
                            tag == DW_TAG_try_block || tag == DW_TAG_catch_block;
      if (!is_scope || dwarf_haspc(child, address) <= 0) return true;
      if (tag == DW_TAG_inlined_subroutine) {
        set_call(lines.back(), child);
        lines.push_back(line_of(child));
      }
      scope = *child;
      found = true;
      return false;
    });
    if (!found) break;
  }
  std::reverse(lines.begin(), lines.end());
  return lines;
}

}  // namespace freeway_profile
