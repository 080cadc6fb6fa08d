// SPDX-License-Identifier: MIT
#include "symbols.h"

#include "names.h"

namespace freeway_profile {
namespace {

std::vector<CodeRange> units_of(Dwfl_Module* module) {
  std::vector<CodeRange> units;
  Dwarf_Addr bias = 0;
  for (Dwarf_Die* unit = nullptr; (unit = dwfl_module_nextcu(module, unit, &bias)) != nullptr;) add_ranges(unit, units);
  sort_ranges(units);
  return units;
}

}  // namespace

const std::vector<Line>& Symbols::of_return_address(std::uint64_t address) {
  const auto [place, is_new] = known_.try_emplace(address);
  // The call ends right before the address; behind it another line, or another function, may begin.
  if (is_new) place->second = look_up(address - 1);
  return place->second;
}

std::vector<Line> Symbols::look_up(std::uint64_t address) {
  Dwfl_Module* module = modules_.at(address);
  if (module == nullptr) {
    Line line;
    line.function = line.symbol = perf_map_.name_at(address);
    return {line};
  }
  std::vector<Line> lines;
  Dwarf_Die unit;
  Dwarf_Addr bias = 0;
  const bool has_unit = unit_of(module, address, &unit, &bias);
  if (has_unit) {
    const auto [functions, is_new] = functions_.try_emplace(unit.addr);
    if (is_new) functions->second = functions_of(&unit);
    if (const CodeRange* found = range_around(functions->second, address - bias); found != nullptr)
      lines = lines_around(found->entry, address - bias);
  }
  if (lines.empty()) lines.emplace_back();
  // Of functions that no other file sees, only the symbol table has the whole name.
  GElf_Off offset;
  GElf_Sym entry;
  Line& outermost = lines.back();
  const char* symbol = dwfl_module_addrinfo(module, address, &offset, &entry, nullptr, nullptr, nullptr);
  if (symbol != nullptr && !outermost.symbol.starts_with("_Z")) {
    outermost.symbol = symbol;
    outermost.function = name_of_symbol(symbol);
  }
  if (Dwarf_Line* source = has_unit ? dwarf_getsrc_die(&unit, address - bias) : nullptr; source != nullptr) {
    lines.front().file = text_of(dwarf_linesrc(source, nullptr, nullptr));
    dwarf_lineno(source, &lines.front().line);
  }
  return lines;
}

bool Symbols::unit_of(Dwfl_Module* module, std::uint64_t address, Dwarf_Die* unit, Dwarf_Addr* bias) {
  if (Dwarf_Die* found = dwfl_module_addrdie(module, address, bias); found != nullptr) {
    *unit = *found;
    return true;
  }
  // Some compilers leave out the table of addresses that this needs.
  if (dwfl_module_getdwarf(module, bias) == nullptr) return false;
  const auto [units, is_new] = units_.try_emplace(module);
  if (is_new) units->second = units_of(module);
  const CodeRange* found = range_around(units->second, address - *bias);
  if (found != nullptr) *unit = found->entry;
  return found != nullptr;
}

}  // namespace freeway_profile
