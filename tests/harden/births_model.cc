// SPDX-License-Identifier: MIT
// births_model.cc: the moves of src/harden/births.h in all executions of small programs: a byte for each block says
// whether it is live, written by plain stores of whoever has the block in hand. Leaves: births_leaves_model.cc.
//
// World     two blocks, in a heap's word (taken by CAS, given by OR: a bitmap) or in the words of two CPUs that are
//           changed in restartable sections (magazines); threads that have blocks; mail
// Scripts   m malloc    f free the oldest block in hand
//           s send it    S the same by a relaxed store     r receive     R the same by a relaxed load
//           n tell which block was freed last     w hear it     x free it again, though it is free
// Promises  a correct free is never refused, also after a relaxed hand-over; a second free by a thread that knows of
//           the first is always refused while nobody has the block; at the end the bytes of blocks in hand and in the
//           mail are their tags, those in the heap 0. With a thread stopped for ever: its own block is lost, or has
//           another byte
// Not       a second free behind a relaxed hand-over of a block that had lived before: the byte of its earlier life may
//           be what the receiver saw and ended, in the order of that byte's values before the second life's tag (see
//           ASecondFreeBehindARelaxedHandOverMayBeMissed)
// Bounds    2 or 3 threads of 1 to 4 actions; a section is begun again once. Weak memory, sleep sets, exhausted
#include "harden/births.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/explorer/scenarios.h"
#include "tests/pages/pages_world.h"

namespace freeway::model {
namespace {

constexpr u32 kBlocks = 2;
constexpr uptr address_of(u32 block) { return 0x10000 + block * 48; }

struct BirthsScript {
  bool sections;
  u32 blocks;  // in the heap at first
  const char* thread[3];
  bool forgetful = false;  // the byte of a free block may be a tag
};

class BirthsProgram {
 public:
  static constexpr int kThreads = 3;
  explicit BirthsProgram(const BirthsScript& script) : script_(script) {
    for (const char* each : script.thread)
      for (; *each != 0; ++each) relaxed_ |= *each == 'S';
    model_name(bytes_, "byte");
    model_name(heap_, "heap");
    model_name(letter_, "letter");
    model_name(notice_, "notice");
    model_name(contents_, "content");
    heap_[0].store_relaxed(static_cast<u32>(low_bits(script.blocks)));
  }

  void thread(int id) {
    if (*script_.thread[id] == 0) return;
    if (script_.sections) model_cpu(cpu(id));
    for (const char* move = script_.thread[id]; *move != 0; ++move) act(*move, id);
  }

  void finish() {
    const int stalled = model_stalled();
    u32 places[kBlocks] = {}, lost = 0;
    const auto found = [&](u32 block, bool live) {
      model_check(++places[block] == 1, "a block is in one place");
      const u8 byte = bytes_[block].load_relaxed();
      model_observe(block * 1000 + byte);
      model_check(byte == (live ? birth::tag_of(address_of(block)) : 0) || (!live && script_.forgetful),
                  live ? "the byte of a live block is its tag" : "the byte of a free block is 0");
    };
    for (const auto& word : heap_)
      for (u32 block = 0; block < kBlocks; ++block)
        if ((word.load_relaxed() >> block & 1) != 0) found(block, false);
    for (int id = 0; id < kThreads; ++id)
      if (id != stalled) hands_[id].each([&](u32 block) { found(block, true); });
    if (const u32 letter = letter_.load_relaxed(); letter != 0 && !received_) found(letter - 1, true);
    for (u32 block = 0; block < script_.blocks; ++block) lost += places[block] == 0;
    u32 most = 0;
    if (stalled >= 0) hands_[stalled].each([&](u32) { ++most; });
    model_check(lost <= (stalled >= 0 ? most + 1 : 0), "a stopped thread loses what it has in hand");
  }

 private:
  int cpu(int id) const { return id == 2 ? 1 : 0; }
  ModelEnv::Atomic<u32>& heap(int id) { return heap_[script_.sections ? cpu(id) : 0]; }
  static bool mutant(const char* name) { return ModelEnv::mutant(name); }

  void act(char move, int id) {
    auto& mine = hands_[id];
    switch (move) {
      case 'm': allocate(id); break;
      case 'f':
        if (mine.any()) release(id);
        break;
      case 's':
        if (mine.any()) letter_.store_release(mine.remove() + 1);
        break;
      case 'S':
        if (mine.any()) letter_.store_relaxed(mine.remove() + 1);
        break;
      case 'r': receive(id, letter_.load_acquire()); break;
      case 'R':
        if (mutant("the barrier comes before the block")) model_interrupt_sections();
        receive(id, letter_.load_relaxed());
        break;
      case 'n':
        if (freed_[id].block != 0) {
          told_ = freed_[id];
          notice_.store_release(1);
        }
        break;
      case 'w':
        if (notice_.load_acquire() != 0) freed_[id] = told_;
        break;
      case 'x': free_again(freed_[id]); break;
      default: model_check(false, "a letter that means something");
    }
  }

  void receive(int id, u32 letter) {
    if (letter == 0 || received_) return;
    received_ = true;
    hands_[id].add(letter - 1);
    use(letter - 1);
  }
  // The contents of a block that somebody got by a relaxed load are ordered by nothing.
  void use(u32 block) {
    if (!relaxed_) contents_[block].set(1);
  }

  void allocate(int id) {
    const int got = script_.sections ? pop(id) : take();
    if (got < 0) return;
    const auto block = static_cast<u32>(got);
    ++lives_[block];
    if (!relaxed_)
      model_check(bytes_[block].load_relaxed() == 0, "who finds a block in the heap sees that it is not live");
    birth::begin(bytes_[block], address_of(block));
    hands_[id].add(block);
    use(block);
  }
  int take() {
    u32 seen = heap_[0].load_relaxed();
    while (seen != 0) {
      const u32 block = lowest_bit(seen);
      if (mutant("the tag is set before the commit")) birth::begin(bytes_[block], address_of(block));
      if (heap_[0].cas_acquire(seen, seen & (seen - 1))) return static_cast<int>(block);
    }
    return -1;
  }
  int pop(int id) {
    return model_section([&] {
      const u32 seen = heap(id).load_relaxed();
      if (seen == 0) return -1;
      const u32 block = lowest_bit(seen);
      if (mutant("the tag is set before the commit")) birth::begin(bytes_[block], address_of(block));
      heap(id).store_relaxed(seen & (seen - 1));
      return static_cast<int>(block);
    });
  }

  bool is_born(u32 block) {
    return birth::is_born(bytes_[block], address_of(block), [] {
      if (mutant("no barrier when 0 is seen") || mutant("the barrier comes before the block")) return true;
      model_interrupt_sections();
      return !mutant("the barrier is made and nobody looks again");
    });
  }

  void release(int id) {
    const u32 block = hands_[id].oldest();
    use(block);
    model_check(is_born(block), "a correct free is not refused");
    const bool late = mutant("cleared after it was given away");
    if (!late && !mutant("not cleared")) birth::end(bytes_[block]);
    hands_[id].remove();
    freed_[id] = {block + 1, lives_[block]};
    const u32 bit = u32{1} << block;
    if (script_.sections) model_section([&] { heap(id).store_relaxed(heap(id).load_relaxed() | bit); });
    else heap_[0].fetch_or_release(bit);
    if (late) birth::end(bytes_[block]);
  }

  struct Freed {
    u32 block;  // + 1; 0: none
    u32 life;   // so many it had
  };
  void free_again(const Freed& freed) {
    if (freed.block == 0) return;
    const bool born = is_born(freed.block - 1);
    if (lives_[freed.block - 1] == freed.life) model_check(!born, "a second free is refused");
  }

  BirthsScript script_;
  bool relaxed_ = false;
  ModelEnv::Atomic<u8> bytes_[kBlocks];
  ModelEnv::Atomic<u32> heap_[2];
  ModelEnv::Atomic<u32> letter_, notice_;
  ModelEnv::Plain<u32> contents_[kBlocks];
  // What no thread reads, but the checks: moves with the operation before it.
  Belongings<u32> hands_[kThreads];
  Freed freed_[kThreads] = {}, told_ = {};
  u32 lives_[kBlocks] = {};
  bool received_ = false;
};

Scenario scenario(const BirthsScript& script) {
  std::string name = script.sections ? "magazines of two CPUs" : "a bitmap";
  name += ", " + std::to_string(script.blocks) + " blocks: " + script.thread[0] + " | " + script.thread[1];
  if (*script.thread[2] != 0) name += std::string(" | ") + script.thread[2];
  Scenario each{name, program_type<BirthsProgram>(script)};
  each.options.reduction = Reduction::kSleep;
  return each;
}

std::vector<Scenario> scenarios() {
  std::vector<Scenario> all;
  for (const bool sections : {false, true})
    for (const BirthsScript& script : {
             BirthsScript{sections, 1, {"mf", "mf", ""}},
             {sections, 1, {"mfm", "mf", ""}},
             {sections, 2, {"mmff", "mf", ""}},
             {sections, 1, {"ms", "", "rf"}},
             {sections, 2, {"msmf", "", "rfm"}},
             {sections, 1, {"mS", "", "Rf"}},
             {sections, 1, {"mS", "m", "Rf"}},
             {sections, 2, {"mmSf", "", "Rfm"}},
             {sections, 1, {"mfx", "m", ""}},
             {sections, 1, {"mfn", "", "wx"}},
             {sections, 1, {"mfn", "mf", "wx"}},
             {sections, 1, {"msw", "", "rfn"}},
             {sections, 1, {"mswx", "", "rfn"}},
             {sections, 1, {"mf", "mf", "m"}},
         })
      all.push_back(scenario(script));
  return all;
}

// The block had lived before it is handed over.
std::vector<Scenario> lived_before() {
  return {scenario({false, 1, {"mfmS", "Rf", ""}, true}), scenario({false, 1, {"mfmS", "Rfmf", ""}, true}),
          scenario({false, 1, {"mfmS", "Rf", "mf"}, true})};
}

TEST(BirthsModel, PromisesHold) { expect_hold(scenarios()); }
TEST(BirthsModel, ACorrectFreeIsNotRefusedWhereTheBlockLivedBefore) { expect_hold(lived_before()); }
TEST(BirthsModel, OthersFinishWhenAThreadStopsForEver) {
  std::vector<Scenario> all = scenarios();
  for (Scenario& each : all) each.stalls = true;
  expect_hold(all);
}

TEST(BirthsModel, ASecondFreeBehindARelaxedHandOverMayBeMissed) {
  const Scenario missed = scenario({false, 1, {"mfmS", "Rfx", ""}, true});
  const Result result = explore_program(missed.program, missed.options);
  EXPECT_TRUE(result.failed) << "the promise could be made";
  EXPECT_NE(result.what.find("a second free is refused"), std::string::npos) << result.report();
}

TEST(BirthsMutants, AreCaught) {
  for (const char* mutant : {"the tag is set before the commit", "cleared after it was given away", "not cleared",
                             "no barrier when 0 is seen", "the barrier comes before the block",
                             "the barrier is made and nobody looks again"})
    expect_mutant_caught(scenarios(), mutant);
}

}  // namespace
}  // namespace freeway::model
