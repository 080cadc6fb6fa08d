// SPDX-License-Identifier: MIT
// blocks.cc: `freeway blocks`: what lies there: the words of freeway_explain_to, the
// neighbours, and of sampled blocks who allocated them.
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "heap/address.h"
#include "heap/places.h"
#include "heap/samples.h"
#include "look.h"
#include "look/explanation.h"
#include "report.h"
#include "subcommands.h"

namespace freeway_command {
namespace {

using std::uint32_t, std::uint64_t;

// "0x7f00", "7f00", "7F00", as debuggers print them: hexadecimal, unless "0d" says otherwise.
uint64_t address_of(const Arguments& arguments, const std::string& text) {
  char* rest = nullptr;
  errno = 0;
  const bool decimal = text.starts_with("0d");
  const uint64_t address = std::strtoull(text.c_str() + (decimal ? 2 : 0), &rest, decimal ? 10 : 16);
  if (text.empty() || *rest != 0 || errno != 0 || text[0] == '-' || text[0] == '+' || text[0] == ' ' || text == "0d")
    arguments.refuse("'" + text + "' is no address: hexadecimal with or without 0x, or decimal after 0d");
  return address;
}

// In the library's own words.
void print_explanation(uint64_t address, const Explained& found) {
  freeway_explanation_t said = found;
  said.what = found.words.c_str();
  std::fflush(stdout);
  freeway::write_explanation(1, reinterpret_cast<void*>(address), said);
}

void print_neighbour(const Heap& heap, const Superblock& superblock, uint32_t index, const char* where) {
  const freeway::SizeClass& k = heap.description().size_class(superblock.size_class);
  std::string what;
  const freeway_state_t state = state_of(heap, superblock, index, what);
  std::printf("  %s 0x%" PRIx64 " is %s%s%s\n", where, superblock.span + uint64_t{index} * k.size,
              state == FREEWAY_LIVE ? "live" : "free", what.empty() ? "" : ": ", what.c_str());
}

void print_superblock(const Heap& heap, const Explained& found) {
  const Superblock& superblock = *found.superblock;
  const freeway::SizeClass& k = heap.description().size_class(superblock.size_class);
  std::printf("  size class %u, block %u of %u in the superblock at 0x%" PRIx64 ": %u live, %u cached, %u free\n",
              superblock.size_class, found.index, k.blocks, superblock.span,
              k.blocks - superblock.free - superblock.cached, superblock.cached, superblock.free);
  if (found.index > 0) print_neighbour(heap, superblock, found.index - 1, "before it");
  if (found.index + 1 < k.blocks) print_neighbour(heap, superblock, found.index + 1, "behind it");
}

// Of a block that the process's heap profile has sampled.
void print_sample(const Heap& heap, const Samples& samples, uint64_t block) {
  for (const SampledBlock& each : samples.blocks()) {
    if (each.address != block) continue;
    const Site* const site = samples.site(each.site);
    const uint64_t now = samples.now();
    std::printf("  sampled: %" PRIu64 " bytes, %.1f s old, allocated at\n", each.bytes,
                static_cast<double>(now > each.born ? now - each.born : 0) / 1000);
    if (site == nullptr || site->frames.empty()) std::puts("    a stack that cannot be read");
    for (std::size_t i = 0; site != nullptr && i < site->frames.size(); ++i)
      std::printf("    %s\n", place_of(heap.memory().mappings(), site->frames[i]).c_str());
    if (site != nullptr && site->copy != 0)
      std::puts("    ... (no frame pointers: `freeway profile` unwinds a dump's stacks)");
    return;
  }
}

}  // namespace

int blocks(const Arguments& arguments) {
  const std::vector<std::string>& others = arguments.others();
  std::vector<uint64_t> addresses;
  for (std::size_t i = 1; i < others.size(); ++i) addresses.push_back(address_of(arguments, others[i]));
  const auto memory = memory_of(others[0]);
  const Heap heap(*memory);
  const Samples samples(heap);
  warn_of(*memory);
  for (const uint64_t address : addresses) {
    const Explained found = explain(heap, address);
    print_explanation(address, found);
    if (found.superblock != nullptr && found.kind == FREEWAY_SMALL_BLOCK) print_superblock(heap, found);
    if (found.state == FREEWAY_LIVE) print_sample(heap, samples, reinterpret_cast<uint64_t>(found.begin));
  }
  return kOk;
}

}  // namespace freeway_command
