// SPDX-License-Identifier: MIT
//
// list_walk: after a random 90 % of 10^6 blocks were freed, builds a linked list from the holes and walks it. Shows
// whether an allocator reuses free memory in address order (the walk runs ahead of the prefetcher) or in the order in
// which it was freed (every step a cache miss).
//
// build_ns and walk_ns: CPU ns a node. The time in front is the building's; one operation is one node built.
// --count (10^6), --size (bytes, 48), --walks (3), --rounds (5), --shrink.
#include "support/measure.h"

namespace {

struct Node {
  Node* next;
  std::uint64_t value;
};

}  // namespace

int main(int argc, char** argv) {
  const auto count = static_cast<std::size_t>(bench::scaled(argc, argv, 1'000'000));
  const auto size = static_cast<std::size_t>(bench::number_argument(argc, argv, "size", 48));
  const long walks = bench::number_argument(argc, argv, "walks", 3);
  const long rounds = bench::number_argument(argc, argv, "rounds", 5);
  const std::size_t kept = count / 10;
  const std::size_t nodes = (count - kept) / 2;
  bench::MappedArray<void*> blocks(count);
  bench::Random random(3);
  bench::Stopwatch building;
  bench::Stopwatch walking;
  std::uint64_t checksum = 0;
  for (long round = 0; round < rounds; ++round) {
    for (auto& block : blocks) bench::stamp(block = bench::must_malloc(size), 1);
    blocks.shuffle(random);
    for (std::size_t i = kept; i < count; ++i) std::free(blocks[i]);

    building.start();
    Node* head = nullptr;
    Node** link = &head;
    for (std::size_t i = 0; i < nodes; ++i) {
      auto* node = static_cast<Node*>(bench::must_malloc(size));
      node->value = i;
      *link = node;
      link = &node->next;
    }
    *link = nullptr;
    building.stop();

    walking.start();
    for (long walk = 0; walk < walks; ++walk)
      for (Node* node = head; node != nullptr; node = node->next) checksum += node->value;
    walking.stop();

    // The blocks that were kept must not have been touched.
    for (std::size_t i = 0; i < kept; ++i) {
      checksum += bench::stamp_of(blocks[i]);
      std::free(blocks[i]);
    }
    while (head != nullptr) {
      Node* node = head;
      head = node->next;
      std::free(node);
    }
  }
  const double ops = static_cast<double>(nodes) * static_cast<double>(rounds);
  bench::report("list_walk", ops, building, checksum,
                {{"build_ns", bench::ns_each(building.cpu(), ops)},
                 {"walk_ns", bench::ns_each(walking.cpu(), ops * static_cast<double>(walks))}});
}
