// SPDX-License-Identifier: MIT
//
// Tests of papers/michael/{active,anchor,size_classes}.h: Fig. 3's widths, each transition against the paper's lines
// written out as plain fields, and the tables for every size and offset.
#include <gtest/gtest.h>

#include "os/machine.h"
#include "papers/michael/descriptor.h"
#include "papers/michael/size_classes.h"
#include "tests/support/random.h"

namespace freeway::michael {
namespace {

using anchor::Form;
using test::Random;

// "typedef active : unsigned ptr:58, credits:6"; "unsigned avail:10, count:10, state:2, tag:42".
static_assert(active::kCreditBits == 6 && active::kMaxCredits == 64);
static_assert(anchor::kIndexBits == 10 && anchor::kCountShift == 10 && anchor::kStateShift == 20 &&
              anchor::kTagShift == 22);
static_assert(anchor::kActive == 0 && anchor::kFull == 1 && anchor::kPartial == 2 && anchor::kEmpty == 3);
static_assert(sizeof(Descriptor<Machine>) == 64 && alignof(Descriptor<Machine>) == 64);
static_assert(sizeof(ProcHeap<Machine>) == 64);

struct Fields {  // an anchor as the paper has it
  u32 avail, count;
  anchor::State state;
  u64 tag;  // with `fresh` on top in the untouched form
  bool operator==(const Fields&) const = default;
};
Fields fields(u64 a) { return {anchor::avail(a), anchor::count(a), anchor::state(a), anchor::tag(a)}; }
u64 word(u32 avail, u32 count, anchor::State state, u64 tag) {
  return u64{avail} | u64{count} << 10 | u64{state} << 20 | tag << 22;
}

TEST(MichaelActive, CreditsAreOneMoreThanTheField) {
  for (u64 desc : {u64{64}, u64{0x7fff12345680 & ~63ull}, ~u64{63}})
    for (u32 credits = 1; credits <= 64; ++credits) {
      const u64 w = active::make(desc, credits);
      ASSERT_EQ(active::descriptor_of(w), desc);
      ASSERT_EQ(active::credits_of(w), credits);
      ASSERT_EQ(active::is_last_credit(w), credits == 1);
      ASSERT_EQ(active::take_credit(w), credits == 1 ? 0 : active::make(desc, credits - 1));
    }
  EXPECT_EQ(active::credits_of(0), 0u);
}

TEST(MichaelAnchor, FieldsAreReadBack) {
  Random random(test::test_seed());
  for (int i = 0; i < 100000; ++i) {
    const Fields f = {static_cast<u32>(random.below(1024)), static_cast<u32>(random.below(1024)),
                      static_cast<anchor::State>(random.below(4)), random.below(u64{1} << 42)};
    const u64 a = word(f.avail, f.count, f.state, f.tag);
    ASSERT_EQ(fields(a), f);
    ASSERT_EQ(fields(anchor::with_avail(a, 7)), (Fields{7, f.count, f.state, f.tag}));
    ASSERT_EQ(fields(anchor::with_count(a, 8)), (Fields{f.avail, 8, f.state, f.tag}));
    ASSERT_EQ(fields(anchor::with_state(a, anchor::kFull)), (Fields{f.avail, f.count, anchor::kFull, f.tag}));
    ASSERT_EQ(anchor::fresh(anchor::with_fresh(a, 9)), 9u);
    ASSERT_EQ(fields(anchor::with_fresh(a, anchor::fresh(a))), f);
  }
}

// Every count that a superblock of `maxcount` blocks can have, in every state, against the paper's lines.
TEST(MichaelAnchor, EachTransitionIsThePapers) {
  for (u32 maxcount : {2u, 3u, 64u, 65u, 66u, 130u, 1023u})
    for (u32 count = 0; count < maxcount; ++count)
      for (auto state : {anchor::kActive, anchor::kFull, anchor::kPartial, anchor::kEmpty})
        for (u64 tag : {u64{0}, u64{5}, (u64{1} << 42) - 1}) {
          const u64 a = word(1, count, state, tag);
          const Fields before = fields(a);
          // MallocFromActive, lines 11 and 12: avail = next; tag++.
          ASSERT_EQ(fields(anchor::popped(a, 17, Form::kLinked)),
                    (Fields{17, count, state, (tag + 1) % (u64{1} << 42)}));
          // Lines 13–17.
          const u32 more = count < 64 ? count : 64;
          ASSERT_EQ(anchor::more_credits(a), more);
          ASSERT_EQ(fields(anchor::last_credit(a)),
                    (Fields{1, count - more, count == 0 ? anchor::kFull : before.state, tag}));
          // MallocFromPartial, lines 7–9; "oldanchor count must be > 0".
          if (count > 0) {
            const u32 rest = count - 1 < 64 ? count - 1 : 64;
            ASSERT_EQ(anchor::credits_of_partial(a), rest);
            ASSERT_EQ(fields(anchor::reserved(a)),
                      (Fields{1, count - rest - 1, rest > 0 ? anchor::kActive : anchor::kFull, tag}));
          }
          // UpdateActive, lines 4 and 5.
          ASSERT_EQ(fields(anchor::returned(a, 1)), (Fields{1, count + 1, anchor::kPartial, tag}));
          // free, lines 9–16.
          const bool empties = count == maxcount - 1;
          ASSERT_EQ(fields(anchor::pushed(a, 9, maxcount)), (Fields{9, empties ? count : count + 1,
                                                                    empties                  ? anchor::kEmpty
                                                                    : state == anchor::kFull ? anchor::kPartial
                                                                                             : state,
                                                                    tag}));
          ASSERT_EQ(anchor::state(anchor::retracted(a, 1, maxcount)), empties ? anchor::kEmpty : anchor::kPartial);
        }
}

TEST(MichaelAnchor, ABornSuperblockIsMallocFromNewSBs) {
  for (u32 maxcount : {2u, 64u, 65u, 66u, 1023u})
    for (Form form : {Form::kLinked, Form::kUntouched}) {
      const u32 credits = maxcount - 1 < 64 ? maxcount - 1 : 64;
      const u64 a = anchor::born(word(77, 3, anchor::kEmpty, 123), maxcount, credits, form);
      EXPECT_EQ(anchor::avail(a), 1u);
      EXPECT_EQ(anchor::count(a), (maxcount - 1) - credits);
      EXPECT_EQ(anchor::state(a), anchor::kActive);
      if (form == Form::kLinked) { EXPECT_EQ(anchor::tag(a), 123u) << "the tag goes on"; }
      if (form == Form::kUntouched) { EXPECT_EQ(anchor::fresh(a), 1u); }
    }
}

// The untouched form hands out the same blocks as a linked one, and reads only links that were written.
TEST(MichaelAnchor, TheUntouchedFormIsALinkedListThatIsNotThere) {
  Random random(test::test_seed());
  for (u32 maxcount : {2u, 3u, 10u, 1023u}) {
    std::vector<u32> linked(maxcount), untouched(maxcount, 5555), taken = {0};
    for (u32 i = 0; i < maxcount; ++i) linked[i] = i + 1;
    u64 a = anchor::born(0, maxcount, 1, Form::kLinked), b = anchor::born(0, maxcount, 1, Form::kUntouched);
    for (int i = 0; i < 20000; ++i) {
      ASSERT_EQ(anchor::avail(a), anchor::avail(b));
      if (taken.size() < maxcount && (taken.empty() || random.chance(50))) {
        const u32 top = anchor::avail(b);
        const bool has = anchor::top_has_link(b, Form::kUntouched);
        if (has) { ASSERT_NE(untouched[top], 5555u) << "a link that nobody wrote"; }
        a = anchor::popped(a, linked[top], Form::kLinked);
        b = anchor::popped(b, has ? untouched[top] : 0, Form::kUntouched);
        taken.push_back(top);
      } else {
        const std::size_t which = random.below(taken.size());
        const u32 block = taken[which];
        taken.erase(taken.begin() + static_cast<long>(which));
        linked[block] = anchor::avail(a);
        untouched[block] = anchor::avail(b);
        a = anchor::with_avail(a, block);
        b = anchor::with_avail(b, block);
      }
    }
  }
}

TEST(MichaelAnchor, TheUntouchedFormsTagWrapsIntoNothingElse) {
  u64 a = anchor::born(0, 10, 1, Form::kUntouched) | anchor::kFreshTagMask;
  a = anchor::with_avail(a, 0);  // block 0 was freed: it has a link
  const u64 next = anchor::popped(a, 4, Form::kUntouched);
  EXPECT_EQ(anchor::fresh(next), 1u);
  EXPECT_EQ(next & anchor::kFreshTagMask, 0u);
  EXPECT_EQ(anchor::avail(next), 4u);
  EXPECT_EQ(anchor::state(next), anchor::kActive);
}

TEST(MichaelSizeClasses, EverySizeGetsTheSmallestClassThatHoldsIt) {
  for (std::size_t bytes = 0; bytes <= kMaxSmallBytes; ++bytes) {
    const unsigned c = class_of(bytes);
    ASSERT_LT(c, kClasses);
    ASSERT_GE(block_size(c), bytes + kPrefix);
    if (c > 0) { ASSERT_LT(block_size(c - 1), bytes + kPrefix); }
  }
}

TEST(MichaelSizeClasses, EveryClassKeepsTheRules) {
  for (unsigned c = 0; c < kClasses; ++c) {
    EXPECT_EQ(block_size(c) % 16, 0u);
    EXPECT_GE(blocks_of(c), 2u) << "with one block nobody would retire the descriptor";
    EXPECT_LE(blocks_of(c), anchor::kMaxBlocks);
    EXPECT_LE(blocks_of(c) * block_size(c), kSuperblockBytes);
    if (c > 0) { EXPECT_GT(block_size(c), block_size(c - 1)); }
    EXPECT_LE(kSuperblockBytes - blocks_of(c) * block_size(c), kSuperblockStride / 16) << "hardly anything is wasted";
  }
}

TEST(MichaelDescriptor, DivisionByMultiplicationIsExact) {
  auto check = [](u32 sz, u64 limit) {
    Descriptor<Machine> desc;
    desc.reciprocal.set(Descriptor<Machine>::reciprocal_of(sz));
    for (u64 offset = 0; offset < limit; ++offset) ASSERT_EQ(desc.index_of(offset), offset / sz) << sz;
  };
  for (unsigned c = 0; c < kClasses; ++c) check(block_size(c), kSuperblockStride);
  check(kSuperblockStride, kHyperblockBytes);
}

}  // namespace
}  // namespace freeway::michael
