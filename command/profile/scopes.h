// SPDX-License-Identifier: MIT
// scopes.h: what debug information says of the functions in a compilation unit.
#pragma once

#include <elfutils/libdw.h>

#include <string>
#include <vector>

namespace freeway_profile {

// Fields are empty, or 0, where nothing is known.
struct Line {
  std::string function;  // as it was written, without parameters
  std::string symbol;    // as the linker has it
  std::string file;      // of the source
  int line = 0;
  int first_line = 0;  // of the function
};

// A piece of code, and what it is of: a unit, or a function.
struct CodeRange {
  Dwarf_Addr low, high;
  Dwarf_Die entry;
};

// Adds where the code of `entry` is.
void add_ranges(Dwarf_Die* entry, std::vector<CodeRange>& out);
void sort_ranges(std::vector<CodeRange>& ranges);
// Null if there is none; `ranges` are sorted.
const CodeRange* range_around(const std::vector<CodeRange>& ranges, Dwarf_Addr address);

// The functions of a unit, sorted by address.
std::vector<CodeRange> functions_of(Dwarf_Die* unit);

// What is inlined at the address, the innermost first, with the places of the calls, and last the function itself.
std::vector<Line> lines_around(Dwarf_Die function, Dwarf_Addr address);

// A C string, or nothing for null.
std::string text_of(const char* text);

}  // namespace freeway_profile
