// SPDX-License-Identifier: MIT
// front_figures.h: the part of Front that counts and tells. Included by front.h.
//
// Everything is read without stopping anybody: exact when nobody else allocates.
#pragma once

namespace freeway {

template <Engine E>
void Front<E>::fill_stats(freeway_stats_t& stats) {
  memset(&stats, 0, sizeof(stats));
  if (!start()) return;
  Account small;
  if (has_engine()) engine_.account(small);
  substrate_.fill_stats(stats, substrate_.span_bytes(), small.live_bytes);
  stats.live_blocks = small.live_blocks + stats.large_blocks;
  stats.cached = small.cached_bytes;
  stats.free_in_superblocks = small.free_bytes;
  stats.metadata += small.metadata_bytes;
  stats.superblocks = small.superblocks;
  stats.slow_mallocs = small.slow_mallocs;
  stats.slow_frees = small.slow_frees;
  stats.refills = small.refills;
  stats.flushes = small.flushes;
  if (!guard::is_on()) return;
  const guard::Figures guarded = guard::figures();
  stats.guarded = guarded.live_bytes;
  stats.guarded_blocks = guarded.live;
  stats.guard_faults = guarded.faults;
  stats.live += guarded.live_bytes;
  stats.live_blocks += guarded.live;
  stats.mapped += guarded.mapped_bytes;
}

template <Engine E>
void Front<E>::fill_audit(freeway_audit_t& audit) {
  memset(&audit, 0, sizeof(audit));
  if (!has_engine()) return;
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

template <Engine E>
template <class F>
void Front<E>::each_class(F&& f) {
  if constexpr (requires { engine_.each_class(f); })
    if (has_engine()) engine_.each_class(f);
}

template <Engine E>
void Front<E>::write_summary(int fd) {
  freeway_stats_t stats;
  fill_stats(stats);
  write_figures(fd, mode(), stats);
  if constexpr (requires(Line& line) { engine_.describe(line); })
    if (Line line; has_engine()) engine_.describe(line.text("  path       ")), line.write(fd);
  if constexpr (requires { engine_.write_classes(fd); })
    if (has_engine()) engine_.write_classes(fd);
  write_heaps(fd);
}

template <Engine E>
void Front<E>::write_summary_json(int fd) {
  freeway_stats_t stats;
  fill_stats(stats);
  Setting setting{E::kName, mode(), "", substrate_.retained_bytes()};
  if constexpr (requires { engine_.why_claimed(); })
    if (has_engine()) setting.rseq_reason = engine_.why_claimed();
  write_figures_json(fd, setting, stats);
  if constexpr (requires { engine_.write_classes_json(fd); })
    if (has_engine()) engine_.write_classes_json(fd);
  write_heaps_json(fd);
  write_all(fd, " ]}\n", 4);
}

template <Engine E>
void Front<E>::finish() {
  if (!ready()) return;
  profile::dump_at_exit();
  const Options& options = substrate_.options();
  if (options.stats) write_summary(summary_fd());
  if (options.stats_path == nullptr) return;
  const int fd = open_summary(options.stats_path);
  if (fd < 0) return;
  options.stats_json ? write_summary_json(fd) : write_summary(fd);
  close_summary(fd);
}

}  // namespace freeway
