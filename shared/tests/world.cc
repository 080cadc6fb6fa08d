// SPDX-License-Identifier: MIT
//
// world.cc: see world.h.
#include "shared/tests/world.h"

namespace freeway::model {

namespace {
SharedProgram* active_program = nullptr;
}  // namespace

void about_to_store() {
  if (active_program != nullptr) active_program->count_store();
}

SharedProgram::SharedProgram(const Scripts& scripts) : scripts_(scripts), size_(scripts.size) {
  active_program = this;
  Shape::span_frames = size_.span_frames;
  world_.tables = {entries_,       bits_, states_, backing_, hints_, participants_, slabs_, /*data_at=*/kFrameSize,
                   size_.capacity, kSeats};
  world_.program = this;
  for (u32 i = 0; i < kMostFrames; ++i) {
    model_name(entries_[i], "entry", static_cast<int>(i));
    model_name(bits_[i], "bits", static_cast<int>(i));
    model_name(backing_[i], "backing", static_cast<int>(i));
    model_name(pages_[i], "pages", static_cast<int>(i));
  }
  for (u32 i = 0; i < kMostFrames * Shape::kBlocks; ++i) model_name(states_[i], "state", static_cast<int>(i));
  for (u32 c = 0; c < Shape::kClasses; ++c) model_name(hints_[c], "hint", static_cast<int>(c));
  for (u32 p = 0; p < kSeats; ++p) {
    model_name(participants_[p], "participant", static_cast<int>(p + 1));
    model_name(slabs_[p], "slab", static_cast<int>(p + 1));
  }
  model_name(frames_, "frames");
  model_name(dead_, "dead");
  frames_.store_relaxed(size_.frames);
  shared::Heap heap(world_);
  for (u32 id = 0; id < kThreads; ++id) heap.join(id + 1, id);
  for (int id = 0; id < kThreads; ++id) {
    running_ = id;
    run(id, scripts_.before[static_cast<std::size_t>(id)]);
    most_stores_before[id] = std::max(most_stores_before[id], stores_[id]);
    stores_[id] = 0;
  }
  running_ = -1;
}

void SharedProgram::count_store() {
  const bool before = running_ >= 0;
  const int id = before ? running_ : model_thread();
  if (id < 0) return;
  const int n = stores_[id]++;
  if (n == (before ? scripts_.died : scripts_.dies)[static_cast<std::size_t>(id)]) throw Died{};
}

void SharedProgram::thread(int id) {
  if (is_dead_[id]) return;
  run(id, scripts_.script[static_cast<std::size_t>(id)]);
  most_stores[id] = std::max(most_stores[id], stores_[id]);
}

void SharedProgram::run(int id, const char* script) {
  try {
    for (; script != nullptr && *script != 0; ++script)
      if (*script != ' ') act(id, *script);
  } catch (const Died&) {
    is_dead_[id] = true;
    dead_[id].store_release(1);
  }
}

void SharedProgram::act(int id, char letter) {
  const u32 seat = static_cast<u32>(id) + 1;
  shared::Heap heap(world_);
  shared::Into into(world_);
  switch (letter) {
    case 'm': return malloc(id, 1);
    case 'M': return malloc(id, 2);
    case 'l': return malloc_large(id, 2);
    case 'f': return free(id, oldest(id));
    case 'x': {
      const u64 block = oldest(id);
      free(id, block);
      return model_check(block == 0 || heap.free(seat, block) == shared::Freed::kNotLive, "a double free is named");
    }
    case 'g': {
      u64 none = 0;
      if (const u64 block = oldest(id); block != 0 && !handed_.cas_acq_rel(none, block)) free(id, block);
      return;
    }
    case 't': return free(id, handed_.exchange_acq_rel(0));
    case 'h':
      if (const u64 block = handed_.exchange_acq_rel(0); block != 0) hands_[id].blocks[hands_[id].count++] = block;
      return;
    case 'd': return shared::Small(world_).drain(seat);
    case 'a': into.alloc_small(seat, seat, 1); return;
    case 'A': into.alloc_large(seat, seat, 1); return;
    case 'z': into.free_from(seat, seat); return;
    case 'r': heap.recover_all(seat); return;
    case 'b': heap.recover(2, seat); return;
    case 'j':
      heap.leave(seat);
      heap.join(seat, static_cast<u32>(id));
      return;
    case 'q': return heap.leave(seat);
    case 's': heap.join(2, static_cast<u32>(id)); return;
    case 'S':
      if (heap.join(1, static_cast<u32>(id))) {
        if (const u64 block = shared::Small(world_).malloc(1, 1); block != 0) {
          use(block);
          model_check(heap.free(1, block) == shared::Freed::kDone, "a live block can be freed");
        }
        heap.leave(1);
      }
      return;
    case 'T': heap.trim(seat, 0); return;
    default: model_check(false, "a letter that there is");
  }
}

void SharedProgram::malloc(int id, u32 c) {
  Hands& hands = hands_[id];
  hands.uncertain = 1;
  const u64 block = shared::Small(world_).malloc(static_cast<u32>(id) + 1, c);
  hands.uncertain = 0;
  if (block == 0) return;
  use(block);
  hands.blocks[hands.count++] = block;
}

void SharedProgram::malloc_large(int id, u32 frames) {
  Hands& hands = hands_[id];
  hands.uncertain = 1;
  const u64 block = shared::Heap(world_).malloc(static_cast<u32>(id) + 1, u64{frames} * kFrameSize);
  hands.uncertain = 0;
  if (block == 0) return;
  use_frames(static_cast<u32>(world_.tables.frame_of(block)), frames);
  hands.blocks[hands.count++] = block;
}

void SharedProgram::free(int id, u64 block) {
  if (block == 0) return;
  hands_[id].uncertain = 1;
  use(block);
  model_check(shared::Heap(world_).free(static_cast<u32>(id) + 1, block) == shared::Freed::kDone,
              "a live block can be freed");
  hands_[id].uncertain = 0;
}

u64 SharedProgram::oldest(int id) {
  Hands& hands = hands_[id];
  if (hands.count == 0) return 0;
  const u64 block = hands.blocks[0];
  std::copy(hands.blocks + 1, hands.blocks + hands.count, hands.blocks);
  --hands.count;
  return block;
}

void SharedProgram::use(u64 block) {
  const auto p = shared::place(world_.tables, block, size_.capacity);
  if (p.size_class == 0) return use_frames(static_cast<u32>(world_.tables.frame_of(block)), 1);
  contents_[p.frame][p.index].set(1);
  model_check(pages_[p.frame].load_relaxed() != 0, "a block's frame has memory");
}

void SharedProgram::use_frames(u32 first, u32 n) {
  for (u32 f = first; f < first + n; ++f)
    for (auto& content : contents_[f]) content.set(0);
}

// While nobody is in a call, and nobody is dead.
void SharedProgram::check_memory(bool trimmed) {
  shared::Backing backing(world_);
  for (u32 f = 0; f < frames_.load_relaxed(); ++f) {
    const bool has_page = pages_[f].load_relaxed() != 0, is_free = entries_[f].load_relaxed() == shared::entry::kFree;
    model_check(has_page || !backing.has_all(f), "no frame that has none is taken to have memory");
    model_check(!has_page || backing.has_some(f), "no frame's memory is forgotten");
    model_check(backing.has_all(f) == backing.has_some(f) || (is_free && size_.keeps), "no frame is in doubt");
    model_check(is_free || has_page, "a frame in use has memory");
    if (trimmed) model_check(!is_free || !has_page, "no free frame has memory");
  }
}

void SharedProgram::check_audit() {
  const shared::Audit found = shared::Heap(world_).audit();
  model_check(found.left_behind == 0, "nobody is left behind");
  model_check(found.lost_blocks == 0, "no block is lost");
  model_check(found.lost_frames == 0, "no frame is lost");
  model_check(found.unnoticed == 0, "no superblock is empty and unnoticed");
  u64 owned = handed_.load_relaxed() != 0, uncertain = 0;
  for (const Hands& hands : hands_) {
    owned += hands.count;
    uncertain += hands.uncertain;
  }
  for (auto& slot : slots_) owned += slot.load_relaxed() != 0;
  model_check(found.live_blocks >= owned && found.live_blocks <= owned + uncertain, "what is live is the program's");
  for (const Hands& hands : hands_)
    for (u32 i = 0; i < hands.count; ++i) model_check(shared::Heap(world_).usable(hands.blocks[i]) != 0, "it is live");
  for (auto& slot : slots_)
    if (const u64 block = slot.load_relaxed(); block != 0)
      model_check(shared::Heap(world_).usable(block) != 0, "what is in a slot is live");
}

void SharedProgram::finish() {
  shared::Heap heap(world_);
  heap.join(kSeats, kSeats - 1);
  heap.recover_all(kSeats);
  check_audit();
  check_memory(/*trimmed=*/false);
  for (u32 seat = 1; seat <= kSeats; ++seat)
    if (shared::participant::kind(participants_[seat - 1].load_relaxed()) == shared::participant::Kind::kAlive)
      heap.leave(seat);
  check_audit();
  const shared::Audit found = heap.audit();
  model_check(found.cached_blocks == 0 && found.claimed_frames == 0, "who has left has nothing");
  model_check(found.live_blocks != 0 || found.free_frames == frames_.load_relaxed(),
              "without live blocks all frames are free");
  size_.keeps = false;
  for (u32 f = 0; f < frames_.load_relaxed(); ++f) heap.trim(kSeats, f);
  check_memory(/*trimmed=*/true);
  model_observe(found.live_blocks);
  active_program = nullptr;
}

Scenario shared_scenario(const Scripts& s) {
  std::string name;
  for (std::size_t id = 0; id < SharedProgram::kThreads; ++id) {
    if (id != 0) name += " | ";
    if (s.before[id] != nullptr) name += std::string(s.before[id]) + ": ";
    if (s.script[id] != nullptr) name += s.script[id];
  }
  for (std::size_t id = 0; id < SharedProgram::kThreads; ++id) {
    if (s.died[id] >= 0) name += ", " + std::to_string(id) + " died before store " + std::to_string(s.died[id]);
    if (s.dies[id] >= 0) name += ", " + std::to_string(id) + " dies before store " + std::to_string(s.dies[id]);
  }
  return {name, program_type<SharedProgram>(s)};
}

std::vector<Scenario> shared_scenarios(const std::vector<Scripts>& programs) {
  std::vector<Scenario> all;
  for (const Scripts& program : programs) all.push_back(shared_scenario(program));
  return all;
}

std::vector<Scripts> with_deaths(const std::vector<Scripts>& programs, std::size_t thread) {
  std::vector<Scripts> all;
  for (const Scripts& program : programs) {
    SharedProgram::most_stores[thread] = 0;
    Options options;
    options.random_walks = 300;  // enough to see how many stores there can be
    explore_program(shared_scenario(program).program, options);
    const int stores = SharedProgram::most_stores[thread];
    all.push_back(program);
    for (int n = 0; n < stores; ++n) {
      all.push_back(program);
      all.back().dies[thread] = n;
    }
  }
  return all;
}

std::vector<Scripts> with_deaths_before(const std::vector<Scripts>& programs, std::size_t thread) {
  std::vector<Scripts> all;
  for (const Scripts& program : programs) {
    SharedProgram::most_stores_before[thread] = 0;
    Options options;
    options.random_walks = 1;
    explore_program(shared_scenario(program).program, options);
    const int stores = SharedProgram::most_stores_before[thread];
    for (int n = 0; n < stores; ++n) {
      all.push_back(program);
      all.back().died[thread] = n;
    }
  }
  return all;
}

}  // namespace freeway::model
