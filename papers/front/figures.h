// SPDX-License-Identifier: MIT
// figures.h: the part of Front that counts and tells. Included by front.h.
//
// Everything is read without stopping anybody: exact when nobody else allocates.
#pragma once

namespace freeway {

// What frames, large blocks and limits add up to.
inline void fill_page_stats(Substrate& substrate, freeway_stats_t& stats) {
  const PurgePolicy<Machine>& policy = substrate.frames().policy();
  const u64 live = policy.live() * kFrameSize, small = substrate.span_frames() * kFrameSize;
  stats.large = live > small ? live - small : 0;
  stats.huge = substrate.large().huge_bytes();
  stats.large_blocks = substrate.large_blocks();
  stats.dirty = policy.dirty() * kFrameSize;
  stats.mapped = live + stats.dirty + stats.huge;
  stats.metadata = substrate.metadata().committed() + substrate.map().leaf_bytes();
  stats.purges = policy.purges();
  stats.purged = policy.purged_bytes();
  const Limits<Machine>& limits = substrate.frames().limits();
  stats.held = limits.held() * kFrameSize;
  stats.soft_limit = limits.soft() * kFrameSize;
  stats.hard_limit = limits.hard() * kFrameSize;
  stats.limit_refusals = limits.refusals();
  stats.limit_pressures = limits.pressures();
}

// Address space that was made accessible and holds no memory now: free frames that are not dirty.
inline u64 retained_bytes(Substrate& substrate) {
  u64 accessible = 0;
  substrate.frames().each_arena([&](Arena<Machine>& arena) {
    accessible += arena.committed() / kFrameSize - arena.hole_frames();
    return true;
  });
  const u64 in_use = substrate.frames().policy().live() + substrate.frames().policy().dirty();
  return accessible > in_use ? (accessible - in_use) * kFrameSize : 0;
}

template <Engine E> void Front<E>::fill_stats(freeway_stats_t& stats) {
  memset(&stats, 0, sizeof(stats));
  if (!start()) return;
  Account small;
  if (ready()) engine_.account(small);
  fill_page_stats(substrate_, stats);
  stats.live = small.live_bytes + stats.large + stats.huge;
  stats.live_blocks = small.live_blocks + stats.large_blocks;
  stats.cached = small.cached_bytes;
  stats.free_in_superblocks = small.free_bytes;
  stats.superblocks = small.superblocks;
  stats.slow_mallocs = small.slow_mallocs;
  stats.slow_frees = small.slow_frees;
  stats.refills = small.refills;
  stats.flushes = small.flushes;
  stats.metadata += small.metadata_bytes;
}

template <Engine E> void Front<E>::fill_audit(freeway_audit_t& audit) {
  memset(&audit, 0, sizeof(audit));
  if (!open()) return;
  if constexpr (requires { engine_.audit(audit); }) {
    engine_.audit(audit);
  } else {
    Account small;
    small.audit = true;
    engine_.account(small);
    audit.blocks_live = small.live_blocks;
    audit.blocks_cached = small.cached_blocks;
    audit.errors = small.errors;
  }
  substrate_.audit_frames(audit, [this](u32 value, uptr address) { return engine_.owns(value, address); });
  if (audit.frames_live + audit.frames_cached + audit.frames_held == 0) audit.frames_live = audit.frames_small;
}

template <Engine E> void Front<E>::write_summary(int fd) {
  freeway_stats_t stats;
  fill_stats(stats);
  write_figures(fd, mode(), stats);
  if constexpr (requires { engine_.write_classes(fd); })
    if (open()) engine_.write_classes(fd);
}

template <Engine E> void Front<E>::finish() {
  if (!ready()) return;
  const Options& options = substrate_.options();
  if (options.stats) write_summary(summary_fd());
  if (options.stats_path == nullptr) return;
  const int fd = open_summary(options.stats_path);
  if (fd < 0) return;
  if (options.stats_json) {
    freeway_stats_t stats;
    fill_stats(stats);
    write_figures_json(fd, {E::kName, mode(), "", retained_bytes(substrate_)}, stats);
    write_all(fd, " ]}\n", 4);
  } else {
    write_summary(fd);
  }
  close_summary(fd);
}

// An engine's small blocks are not told apart.
template <Engine E> void Front<E>::explain(uptr address, freeway_explanation_t& found) {
  memset(&found, 0, sizeof(found));
  found.what = "";
  if (!open()) return;
  const auto entry = [this](uptr frame) { return substrate_.map().get_unowned(frame); };  // OPTIMISTIC: explain
  const auto bytes_of = [this](FrameInfo info) { return large_bytes(E::kLargePrefix, info); };
  if (entry(address).kind() == FrameInfo::kSmall)
    explanation::other(found, FREEWAY_SMALL_BLOCK, "of this engine no more is known");
  else if (explanation::large(found, address, entry, bytes_of, E::kLargePrefix)) return;
  else if (substrate_.frames().arena_of(address) != nullptr)
    explanation::other(found, FREEWAY_FREE_MEMORY, "no block's");
  else if (substrate_.metadata().contains(address)) explanation::other(found, FREEWAY_METADATA, "descriptors");
  else if (address - reinterpret_cast<uptr>(this) < sizeof(*this))
    explanation::other(found, FREEWAY_METADATA, "the heap's tables");
}

// The engines do not know which of their small blocks are live.
template <Engine E> void Front<E>::block_info(uptr address, freeway_block_info_t& info) {
  memset(&info, 0, sizeof(info));
  if (!open()) return;
  const FrameInfo frame = substrate_.map().get_unowned(address);  // OPTIMISTIC: explain
  if (frame.kind() == FrameInfo::kSmall || frame.kind() == FrameInfo::kNothing || !begins_large(address)) return;
  info.size = large_bytes(address, frame);
  info.kind = FREEWAY_LARGE_BLOCK;
  info.superblock_size = frame.frames() * kFrameSize;
  info.superblock_blocks = info.superblock_live = 1;
  info.class_permille = 1000;
}

}  // namespace freeway
