// SPDX-License-Identifier: MIT
// explorer_litmus_test.cc: what the explorer's memory may and may not show, by the litmus tests of the literature.
//
// Each test states the exact set of outcomes. The registers that a program observes are digits of one decimal number,
// so that a set reads like the tables in papers. Every program is searched three ways, which must agree.
#include <gtest/gtest.h>

#include <cstdint>
#include <set>

#include "tests/explorer/explorer.h"
#include "tests/explorer/model_env.h"

namespace freeway::model {
namespace {

using u32 = std::uint32_t;
using Outcomes = std::set<std::uint64_t>;
using Word = ModelEnv::Atomic<u32>;

// model_observe() hashes; these programs observe once, so this turns plain numbers into what explore() returns.
Outcomes observed(std::initializer_list<std::uint64_t> values) {
  Outcomes outcomes;
  for (std::uint64_t value : values) outcomes.insert(value + 1);
  return outcomes;
}

template <class Program, class... Args> Outcomes outcomes_of(MemoryModel memory, Args... args) {
  Outcomes first;
  for (Reduction reduction : {Reduction::kFull, Reduction::kSleep, Reduction::kDpor}) {
    Result result = explore<Program>({.reduction = reduction, .memory = memory}, args...);
    EXPECT_TRUE(result.ok()) << result.report();
    EXPECT_TRUE(result.exhausted);
    if (reduction == Reduction::kFull) first = result.outcomes;
    EXPECT_EQ(result.outcomes, first) << result.summary();
  }
  return first;
}

template <class Program, class... Args> Outcomes weak(Args... args) {
  return outcomes_of<Program>(MemoryModel::kWeak, args...);
}

enum Strength { kWeakOrders, kStrongOrders };

struct MessagePassing {
  static constexpr int kThreads = 2;
  Strength strength;
  Word data, flag;
  u32 seen_flag = 0, seen_data = 0;
  explicit MessagePassing(Strength s) : strength(s) {}
  void thread(int id) {
    if (id == 0) {
      data.store_relaxed(1);
      strength == kStrongOrders ? flag.store_release(1) : flag.store_relaxed(1);
    } else {
      seen_flag = strength == kStrongOrders ? flag.load_acquire() : flag.load_relaxed();
      seen_data = data.load_relaxed();
    }
  }
  void finish() { model_observe(seen_flag * 10 + seen_data); }
};

TEST(Litmus, MessagePassingNeedsReleaseAndAcquire) {
  EXPECT_EQ(weak<MessagePassing>(kStrongOrders), observed({0, 1, 11}));
  EXPECT_EQ(weak<MessagePassing>(kWeakOrders), observed({0, 1, 10, 11}));
  EXPECT_EQ(outcomes_of<MessagePassing>(MemoryModel::kSequential, kWeakOrders), observed({0, 1, 11}));
}

struct PlainMessagePassing {
  static constexpr int kThreads = 2;
  Strength strength;
  ModelEnv::Plain<u32> data;
  Word flag;
  explicit PlainMessagePassing(Strength s) : strength(s) {
    model_name(data, "data");
    model_name(flag, "flag");
  }
  void thread(int id) {
    if (id == 0) {
      data.set(7);
      strength == kStrongOrders ? flag.store_release(1) : flag.store_relaxed(1);
    } else if (flag.load_acquire() == 1) {
      model_check(data.get() == 7, "the message arrived");
    }
  }
  void finish() {}
};

TEST(Litmus, PlainDataBehindARelaxedFlagIsARace) {
  EXPECT_TRUE(explore<PlainMessagePassing>({}, kStrongOrders).ok());
  Result racy = explore<PlainMessagePassing>({}, kWeakOrders);
  EXPECT_TRUE(racy.failed);
  EXPECT_NE(racy.what.find("race"), std::string::npos);
  EXPECT_NE(racy.what.find("data"), std::string::npos);
}

struct PlainReadThenWrite {  // the reader is done first: a race all the same
  static constexpr int kThreads = 2;
  ModelEnv::Plain<u32> data;
  Word turn;
  void thread(int id) {
    if (id == 0) {
      (void)data.get();
      turn.store_relaxed(1);
    } else if (turn.load_acquire() == 1) {
      data.set(1);
    }
  }
  void finish() {}
};

TEST(Litmus, AWriteAfterAnUnorderedReadIsARace) { EXPECT_TRUE(explore<PlainReadThenWrite>().failed); }

struct AccessAfterRelease {  // what follows a release is not covered by it
  static constexpr int kThreads = 2;
  ModelEnv::Plain<u32> data;
  Word flag;
  void thread(int id) {
    if (id == 0) {
      flag.store_release(1);
      data.set(1);
    } else if (flag.load_acquire() == 1) {
      (void)data.get();
    }
  }
  void finish() {}
};

TEST(Litmus, AnAccessAfterTheReleaseIsNotPublishedByIt) { EXPECT_TRUE(explore<AccessAfterRelease>().failed); }

struct StoreBuffering {
  static constexpr int kThreads = 2;
  Word word[2];
  u32 seen[2] = {};
  void thread(int id) {
    word[id].store_release(1);
    seen[id] = word[1 - id].load_acquire();
  }
  void finish() { model_observe(seen[0] * 10 + seen[1]); }
};

TEST(Litmus, StoreBufferingMayShowTwoZeros) {
  EXPECT_EQ(weak<StoreBuffering>(), observed({0, 1, 10, 11}));
  EXPECT_EQ(outcomes_of<StoreBuffering>(MemoryModel::kSequential), observed({1, 10, 11}));
}

struct ReadReadCoherence {
  static constexpr int kThreads = 2;
  Word word;
  u32 first = 0, second = 0;
  void thread(int id) {
    if (id == 0) {
      word.store_relaxed(1);
      word.store_relaxed(2);
    } else {
      first = word.load_relaxed();
      second = word.load_relaxed();
    }
  }
  void finish() { model_observe(first * 10 + second); }
};

TEST(Litmus, ReadsOfOneWordNeverGoBack) { EXPECT_EQ(weak<ReadReadCoherence>(), observed({0, 1, 2, 11, 12, 22})); }

struct WriteReadCoherence {
  static constexpr int kThreads = 2;
  Word word;
  u32 seen = 0;
  void thread(int id) {
    word.store_relaxed(id == 0 ? 1 : 2);
    if (id == 0) seen = word.load_relaxed();
  }
  void finish() { model_observe(seen * 10 + word.load_relaxed()); }
};

TEST(Litmus, AThreadSeesItsOwnStoreOrALaterOne) {
  // 11: T1's store came first. 12: it came second but was not seen. 22: seen.
  EXPECT_EQ(weak<WriteReadCoherence>(), observed({11, 12, 22}));
}

struct IndependentReaders {  // IRIW: two readers may disagree about the order of two writers
  static constexpr int kThreads = 4;
  Word word[2];
  u32 seen[4] = {};
  void thread(int id) {
    if (id < 2) {
      word[id].store_release(1);
    } else {
      seen[2 * (id - 2)] = word[id - 2].load_acquire();
      seen[2 * (id - 2) + 1] = word[3 - id].load_acquire();
    }
  }
  void finish() { model_observe(seen[0] * 1000 + seen[1] * 100 + seen[2] * 10 + seen[3]); }
};

TEST(Litmus, IndependentReadersMayDisagree) {
  Outcomes all;
  for (u32 bits = 0; bits < 16; ++bits)
    all.insert((bits >> 3) * 1000 + (bits >> 2 & 1) * 100 + (bits >> 1 & 1) * 10 + (bits & 1) + 1);
  EXPECT_EQ(weak<IndependentReaders>(), all);
  all.erase(1010 + 1);
  EXPECT_EQ(outcomes_of<IndependentReaders>(MemoryModel::kSequential), all);
}

struct WriteToReadCausality {  // WRC: a release passes on what its thread acquired
  static constexpr int kThreads = 3;
  Word data, flag;
  u32 first = 0, second = 0, third = 0;
  void thread(int id) {
    if (id == 0) data.store_release(1);
    if (id == 1) {
      first = data.load_acquire();
      flag.store_release(1);
    }
    if (id == 2) {
      second = flag.load_acquire();
      third = data.load_relaxed();
    }
  }
  void finish() { model_observe(first * 100 + second * 10 + third); }
};

TEST(Litmus, CausalityIsTransitive) {
  EXPECT_EQ(weak<WriteToReadCausality>(), observed({0, 1, 10, 11, 100, 101, 111}));
}

enum Middle { kRelaxedRmw, kRelaxedStore };

struct ReleaseSequence {
  static constexpr int kThreads = 3;
  Middle middle;
  Word data, flag;
  u32 bad = 0;
  explicit ReleaseSequence(Middle m) : middle(m) {}
  void thread(int id) {
    if (id == 0) {
      data.store_relaxed(1);
      flag.store_release(1);
    }
    if (id == 1 && middle == kRelaxedRmw) flag.fetch_add_relaxed(1);
    if (id == 1 && middle == kRelaxedStore) {
      u32 seen = flag.load_relaxed();
      if (seen == 1) flag.store_relaxed(2);
    }
    if (id == 2 && flag.load_acquire() == 2 && data.load_relaxed() == 0) bad = 1;
  }
  void finish() { model_observe(bad); }
};

TEST(Litmus, ARelaxedRmwPassesTheReleaseOnAndAStoreDoesNot) {
  EXPECT_EQ(weak<ReleaseSequence>(kRelaxedRmw), observed({0}));
  EXPECT_EQ(weak<ReleaseSequence>(kRelaxedStore), observed({0, 1}));
}

struct FenceAfterRelaxed {
  static constexpr int kThreads = 2;
  bool fence;
  Word data, flag;
  u32 bad = 0;
  explicit FenceAfterRelaxed(bool f) : fence(f) {}
  void thread(int id) {
    if (id == 0) {
      data.store_relaxed(1);
      flag.fetch_or_release(1);
    } else if (flag.fetch_or_relaxed(2) == 1) {
      if (fence) ModelEnv::fence_acquire();
      bad = data.load_relaxed() == 0;
    }
  }
  void finish() { model_observe(bad); }
};

TEST(Litmus, AnAcquireFenceMakesAnEarlierRelaxedReadAcquire) {
  EXPECT_EQ(weak<FenceAfterRelaxed>(true), observed({0}));
  EXPECT_EQ(weak<FenceAfterRelaxed>(false), observed({0, 1}));
}

struct FailedCas {
  static constexpr int kThreads = 2;
  Word word;
  u32 seen = 9, won = 9;
  void thread(int id) {
    if (id == 0) {
      word.store_relaxed(1);
      word.store_relaxed(2);
    } else {
      u32 expected = 2;
      won = word.cas_relaxed(expected, 3);
      seen = expected;
    }
  }
  void finish() { model_observe(won * 100 + seen * 10 + word.load_relaxed()); }
};

TEST(Litmus, ACasMayFailOnAnOlderValue) {
  // Failing: saw 0 or 1, the end is 2. Winning: expected stays 2, the end is 3.
  EXPECT_EQ(weak<FailedCas>(), observed({2, 12, 123}));
}

struct Counter {
  static constexpr int kThreads = 3;
  Word word;
  void thread(int) {
    word.fetch_add_relaxed(1);
    word.fetch_sub_relaxed(2);
  }
  void finish() { model_check(word.load_relaxed() == u32(-3), "RMWs are atomic"); }
};

TEST(Litmus, NoIncrementIsLostAndSmallTypesWrap) { EXPECT_TRUE(explore<Counter>().ok()); }

struct TwoPlusTwoWrites {
  static constexpr int kThreads = 2;
  Word x, y;
  void thread(int id) {
    Word& first = id == 0 ? x : y;
    Word& second = id == 0 ? y : x;
    first.store_relaxed(1);
    second.store_relaxed(2);
  }
  void finish() { model_observe(x.load_relaxed() * 10 + y.load_relaxed()); }
};

TEST(Litmus, StoresOfOneWordMayBeOrderedOtherwiseThanExecuted) {
  EXPECT_EQ(weak<TwoPlusTwoWrites>(), observed({11, 12, 21, 22}));
  EXPECT_EQ(outcomes_of<TwoPlusTwoWrites>(MemoryModel::kSequential), observed({12, 21, 22}));
}

struct RmwBeforeStore {  // an RMW may take its place before a blind store that was executed earlier, as 2+2W shows it
  static constexpr int kThreads = 2;
  Word x, y;
  u32 seen = 0;
  void thread(int id) {
    if (id == 0) {
      x.store_relaxed(4);
      y.store_relaxed(1);
    } else {
      seen = y.load_relaxed();
      x.fetch_add_relaxed(1);
    }
  }
  void finish() { model_observe(seen * 10 + x.load_relaxed()); }
};

TEST(Litmus, AnRmwMayComeBeforeAStoreThatItDoesNotKnow) { EXPECT_EQ(weak<RmwBeforeStore>(), observed({4, 5, 14, 15})); }

struct LoadBuffering {
  static constexpr int kThreads = 2;
  Word word[2];
  u32 seen[2] = {};
  void thread(int id) {
    seen[id] = word[id].load_relaxed();
    word[1 - id].store_relaxed(1);
  }
  void finish() { model_observe(seen[0] * 10 + seen[1]); }
};

// C++ also allows 11: the one limit of this memory (memory.h).
TEST(Litmus, LoadBufferingIsNotShown) { EXPECT_EQ(weak<LoadBuffering>(), observed({0, 1, 10})); }

}  // namespace
}  // namespace freeway::model
