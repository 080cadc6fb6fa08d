// SPDX-License-Identifier: MIT
#include "pages/substrate.h"

namespace freeway {

template class Extent<Machine, 64>;
template class CommittedRange<Machine>;
template class Arena<Machine>;
template class Limits<Machine>;
template class Frames<Machine>;
template class PageMap<Machine>;
template class Metadata<Machine>;
template class LargeBlocks<Machine>;

namespace {
constexpr u64 kReserved = 64, kLowMask = kFrameSize - 1;  // the low bits of the packed place
}

bool Substrate::start(FrameBytes* frame_bytes, std::size_t huge_from) {
  metadata_.init(Metadata<Machine>::kSegmentBytes, &frames_.limits());
  // First, so that it lies beside the small mappings and shares their page tables; where there is no window it is not
  // reserved before it is used.
  if (vm::has_window()) metadata_.begin();
  const auto place = []() -> u64 {
    for (std::size_t bytes = kPrimaryBytes; bytes >= kChunkSize; bytes /= 2)
      if (const Space space = vm::space(bytes, kChunkSize))
        return space.base | (space.reserved ? kReserved : 0) | log2_floor(bytes);
    return 0;
  };
  const u64 packed = primary_.get(place, [](u64 late) {
    if ((late & kReserved) != 0) vm::release(late & ~kLowMask, std::size_t{1} << (late % kReserved));
  });
  if (packed == 0) return false;
  const uptr base = packed & ~kLowMask;
  const std::size_t bytes = std::size_t{1} << (packed % kReserved);
  frames_.init({base, (packed & kReserved) != 0}, bytes, chunks_, further_);
  map_.init(base, bytes / kFrameSize, frame_bytes, reinterpret_cast<Atomic<u32>*>(frame_infos_), &frames_.limits());
  large_.init(&frames_, &map_, huge_from);
  cpus_ = process::cpus();
  return true;
}

void Substrate::read_environment(bool speak) {
  options_ = read_options(speak);
  frames_.begin_limit(options_.soft_limit, options_.hard_limit);
  frames_.policy().begin(process::begin_time_ns());
  frames_.policy().never(options_.never_purge);
  frames_.huge_pages().set(static_cast<HugeWish>(options_.huge));
}

void Substrate::give_span(uptr address, std::size_t frames) {
  span_frames_.fetch_sub_relaxed(frames);
  map_.clear(address, frames);
  Machine::step("span.cleared");
  frames_.give(address, frames, process::coarse_time_ns());
}

void Substrate::limit(std::size_t soft, std::size_t hard) {
  frames_.limit(soft, hard);
  frames_.tick(process::coarse_time_ns());
}

void Substrate::purge_beyond(std::size_t keep) {
  large_.release_kept();
  const std::size_t least = frames_.policy().kept(), wanted = keep / kFrameSize;
  frames_.purge_to(wanted > least ? wanted : least);
}

Fault Substrate::classify_outside(uptr address) {
  Arena<Machine>* arena = frames_.arena_of(address);
  if (arena == nullptr) return Fault::kForeign;
  const std::size_t offset = address - arena->base();
  if (offset >= arena->committed()) return Fault::kForeign;  // nothing of ours was ever there
  const std::size_t chunk = offset / kChunkSize, frame = offset % kChunkSize / kFrameSize;
  if ((arena->holes_of(chunk) >> frame & 1) != 0) return Fault::kForeign;  // a mapping of the program's own
  const bool used = (arena->used_word(chunk) >> frame & 1) != 0;
  if (!used) return Fault::kDoubleFree;  // its frame is free again
  return address % kMinBlock != 0 ? Fault::kMisaligned : Fault::kInterior;
}

}  // namespace freeway
