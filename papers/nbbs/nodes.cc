// SPDX-License-Identifier: MIT
// nodes.cc: see nodes.h; and the functions of freeway/buddy.h that concern all nodes.
#include "papers/nbbs/nodes.h"

#include <errno.h>
#include <sys/mman.h>

#include "base/compiler.h"
#include "os/syscall.h"

namespace freeway::nbbs {

Nodes::Layout Nodes::layout(const Settings& s, unsigned count, std::size_t page) {
  const std::size_t metadata = align_up(sizeof(Nodes), page);
  const std::size_t memory = metadata + align_up(SharedBuddy::bytes(s), page);
  const std::size_t each = memory - metadata + align_up(s.managed(), page);
  return {metadata, memory, each, metadata + count * each};
}

void Nodes::init(const Settings& settings, const Layout& layout, const u8* ids, unsigned count) {
  layout_ = layout;
  count_ = count;
  for (unsigned i = 0; i < count; ++i) {
    ids_[i] = ids[i];
    buddy(i).init(settings, reinterpret_cast<char*>(&buddy(i)) + (layout.memory - layout.metadata));
  }
}

unsigned Nodes::index_of(unsigned id) const {
  for (unsigned i = 0; i < count_; ++i)
    if (ids_[i] == id) return i;
  return id % count_;
}

int Nodes::take(std::size_t size, int policy, unsigned local, void** block) {
  if (policy < FREEWAY_BUDDY_PREFERRED || policy > FREEWAY_BUDDY_INTERLEAVE) return EINVAL;
  const unsigned turn = policy == FREEWAY_BUDDY_INTERLEAVE ? turn_.fetch_add_relaxed(1) % count_ : 0;
  for (unsigned attempt = 0;; ++attempt) {
    const unsigned index = node_to_try(policy, attempt, local, turn, count_);
    if (index == count_) return ENOMEM;
    if (buddy(index).take(size, block) == 0) return 0;
  }
}

int Nodes::give(const void* block) {
  const std::size_t offset = reinterpret_cast<uptr>(block) - reinterpret_cast<uptr>(this) - layout_.metadata;
  return offset / layout_.each < count_ ? buddy(static_cast<unsigned>(offset / layout_.each)).give(block) : EINVAL;
}

namespace {

constexpr u64 kPreferred = 1;     // MPOL_PREFERRED: elsewhere rather than killed, where the node has no memory
constexpr u64 kAllowedNodes = 4;  // MPOL_F_MEMS_ALLOWED
constexpr u64 kMostKernelNodes = 1024;

// The kernel's numbers of the nodes that this process may use; how many. One node, 0, if the kernel does not tell.
unsigned allowed_nodes(u8* ids) {
  u64 mask[kMostKernelNodes / 64] = {};
  unsigned count = 0;
  const long failed =
      raw_syscall(SYS_get_mempolicy, 0, reinterpret_cast<u64>(mask), kMostKernelNodes, 0, kAllowedNodes);
  for (unsigned id = 0; failed == 0 && id < 256 && count < kMostNodes; ++id)
    if ((mask[id / 64] >> (id % 64) & 1) != 0) ids[count++] = static_cast<u8>(id);
  if (count == 0) ids[count++] = 0;
  return count;
}

bool place(uptr address, std::size_t bytes, unsigned id) {
  u64 mask[kMostKernelNodes / 64] = {};
  mask[id / 64] = u64{1} << (id % 64);
  return raw_syscall(SYS_mbind, address, bytes, kPreferred, reinterpret_cast<u64>(mask), kMostKernelNodes) == 0;
}

unsigned current_node() {
  unsigned cpu = 0, node = 0;
  raw_syscall(SYS_getcpu, reinterpret_cast<u64>(&cpu), reinterpret_cast<u64>(&node), 0);
  return node;
}

Nodes& of(freeway_buddy_nodes_t* nodes) { return *reinterpret_cast<Nodes*>(nodes); }

}  // namespace
}  // namespace freeway::nbbs

using namespace freeway;
using namespace freeway::nbbs;

extern "C" {

FREEWAY_EXPORT freeway_buddy_nodes_t* freeway_buddy_nodes_create(const freeway_buddy_options_t* options,
                                                                 unsigned nodes) {
  Settings settings;
  if (options == nullptr || !SharedBuddy::read(*options, &settings) || nodes > kMostNodes) {
    errno = EINVAL;
    return nullptr;
  }
  u8 ids[kMostNodes];
  const unsigned known = allowed_nodes(ids);
  for (unsigned i = known; i < nodes; ++i) ids[i] = ids[i % known];  // more than there are: they share
  if (nodes == 0) nodes = known;
  const Nodes::Layout layout = Nodes::layout(settings, nodes, vm::page_size());
  const long memory = raw_syscall(SYS_mmap, 0, layout.bytes, PROT_READ | PROT_WRITE,
                                  MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, ~u64{0}, 0);
  if (memory < 0) {
    errno = static_cast<int>(-memory);
    return nullptr;
  }
  auto* made = reinterpret_cast<Nodes*>(memory);
  for (unsigned i = 0; i < nodes; ++i)
    if (place(static_cast<uptr>(memory) + layout.metadata + i * layout.each, layout.each, ids[i])) made->set_placed(i);
  made->init(settings, layout, ids, nodes);
  return reinterpret_cast<freeway_buddy_nodes_t*>(made);
}

FREEWAY_EXPORT int freeway_buddy_nodes_destroy(freeway_buddy_nodes_t* nodes) {
  const long failed =
      nodes == nullptr ? -EINVAL : raw_syscall(SYS_munmap, reinterpret_cast<u64>(nodes), of(nodes).layout().bytes);
  if (failed == 0) return 0;
  errno = static_cast<int>(-failed);
  return -1;
}

FREEWAY_EXPORT unsigned freeway_buddy_nodes_count(freeway_buddy_nodes_t* nodes) {
  return nodes == nullptr ? 0 : of(nodes).count();
}

FREEWAY_EXPORT freeway_buddy_t* freeway_buddy_nodes_buddy(freeway_buddy_nodes_t* nodes, unsigned index, int* placed) {
  if (nodes == nullptr || index >= of(nodes).count()) {
    errno = EINVAL;
    return nullptr;
  }
  if (placed != nullptr) *placed = of(nodes).placed(index);
  return reinterpret_cast<freeway_buddy_t*>(&of(nodes).buddy(index));
}

FREEWAY_EXPORT void* freeway_buddy_nodes_alloc(freeway_buddy_nodes_t* nodes, size_t bytes, int policy) {
  void* block = nullptr;
  const int error =
      nodes == nullptr ? EINVAL : of(nodes).take(bytes, policy, of(nodes).index_of(current_node()), &block);
  if (error != 0) errno = error;
  return block;
}

FREEWAY_EXPORT int freeway_buddy_nodes_free(freeway_buddy_nodes_t* nodes, void* block) {
  const int error = nodes == nullptr ? EINVAL : block == nullptr ? 0 : of(nodes).give(block);
  if (error == 0) return 0;
  errno = error;
  return -1;
}

}  // extern "C"
