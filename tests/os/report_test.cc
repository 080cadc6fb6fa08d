// SPDX-License-Identifier: MIT
//
// Tests of os/report.h: what a line says, against printf; what happens to a line that is too long; and that all of it
// is written, whatever write() says.
#include "os/report.h"

#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <string>
#include <thread>

#include "base/check.h"
#include "tests/support/captured.h"
#include "tests/support/random.h"

namespace freeway::test {
namespace {

constexpr std::size_t kMost = 319;  // characters of a line, before its newline

std::string text(const Line& line) { return {line.data(), line.size()}; }

template <class... Args> std::string print(const char* format, Args... args) {
  char buffer[400];
  snprintf(buffer, sizeof(buffer), format, args...);
  return buffer;
}

// Each length of number, and its neighbours.
template <class F> void each_number(F&& f) {
  for (u64 x = 0; x < 300; ++x) f(x);
  for (u64 power = 1000; power != 0 && power < ~u64{0} / 10; power *= 10)
    for (u64 x : {power - 1, power, power + 1}) f(x);
  for (unsigned bit = 8; bit < 64; ++bit)
    for (u64 x : {(u64{1} << bit) - 1, u64{1} << bit, (u64{1} << bit) + 1}) f(x);
  f(~u64{0});
}

TEST(Line, NumbersAreThoseOfPrintf) {
  each_number([](u64 x) {
    for (std::size_t width : {0, 1, 5, 12, 20, 25})
      ASSERT_EQ(text(Line().number(x, width)), print("%*lu", static_cast<int>(width), x));
    ASSERT_EQ(text(Line().hex(x)), print("0x%lx", x));
  });
}

TEST(Line, AStringIsOneOfJson) {
  EXPECT_EQ(text(Line().string("plain text")), "\"plain text\"");
  EXPECT_EQ(text(Line().string("a\"b\\c\nd\xe9")), "\"a\\\"b\\\\c?d?\"");
  EXPECT_EQ(text(Line().string("")), "\"\"");
  EXPECT_EQ(text(Line().string(std::string(500, '"').c_str())).size(), 2u + 2 * 100);
}

TEST(Line, BytesHaveTheUnitInWhichTheyAreShort) {
  EXPECT_EQ(text(Line().bytes(0)), "0 B");
  EXPECT_EQ(text(Line().bytes(1023)), "1023 B");
  EXPECT_EQ(text(Line().bytes(1024)), "1.0 KiB");
  EXPECT_EQ(text(Line().bytes(12'897'484)), "12.2 MiB");
  EXPECT_EQ(text(Line().bytes(kGiB * 3 / 2, 12)), "     1.5 GiB");
  EXPECT_EQ(text(Line().bytes(u64{1} << 50)), "1024.0 TiB");
  const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  each_number([&](u64 x) {
    if (x > u64{1} << 60) return;  // more than there are addresses for
    unsigned unit = 0;
    u64 size = 1;
    while (unit < 4 && x / 1024 >= size) size *= 1024, ++unit;
    const std::string expected =
        unit == 0 ? print("%lu B", x)
                  : print("%lu.%lu %s", x / size, static_cast<u64>(static_cast<__uint128_t>(x % size) * 10 / size),
                          units[unit]);
    ASSERT_EQ(text(Line().bytes(x)), expected) << x;
  });
}

TEST(Line, WhatDoesNotFitIsCutOff) {
  const std::string all(kMost + 60, 'x');
  for (std::size_t length = kMost - 9; length < kMost + 20; ++length) {
    Line line;
    line.text(all.substr(0, length).c_str()).number(7);
    ASSERT_EQ(text(line), (all.substr(0, length) + "7").substr(0, kMost));
    const std::string written = captured(2, [&] { line.write(); });
    ASSERT_EQ(written, (all.substr(0, length) + "7").substr(0, kMost) + "\n");
  }
}

TEST(Line, PaddingAtTheEndOfTheLineStaysInIt) {
  for (std::size_t before = kMost - 39; before < kMost + 6; ++before)
    for (std::size_t width : {5, 30, 100, 1000}) {
      const std::string start(before, 'x');
      struct {
        Line line;
        unsigned char guard[64] = {};
      } guarded;
      guarded.line.text(start.c_str()).number(123, width);
      guarded.line.text("abc").bytes(5000, width);
      ASSERT_LE(guarded.line.size(), kMost);
      ASSERT_EQ(text(guarded.line).substr(0, before), start.substr(0, kMost));
      for (unsigned char byte : guarded.guard) ASSERT_EQ(byte, 0);
    }
}

TEST(Line, WritingEmptiesTheLine) {
  Line line;
  EXPECT_EQ(captured(2,
                     [&] {
                       line.text("one").write();
                       EXPECT_EQ(line.size(), 0u);
                       line.text("two").write();
                       line.write();
                     }),
            "one\ntwo\n\n");
}

TEST(Line, ErrnoIsKeptAlsoWhereNothingCanBeWritten) {
  errno = EDOM;
  Line().text("lost").write(-1);
  EXPECT_EQ(errno, EDOM);
  captured(2, [] { Line().text("kept").write(2); });
  EXPECT_EQ(errno, EDOM);
}

TEST(WriteAll, AnErrorEndsIt) {
  const int full = open("/dev/full", O_WRONLY);
  ASSERT_GE(full, 0);
  write_all(full, "x", 1);  // comes back
  close(full);
  signal(SIGPIPE, SIG_IGN);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  close(ends[0]);
  write_all(ends[1], "x", 1);
  close(ends[1]);
}

TEST(WriteAll, AllOfItIsWrittenInPiecesAndThroughInterruptions) {
  struct sigaction action = {};
  action.sa_handler = [](int) {};  // without SA_RESTART: write() is interrupted, and says so
  sigaction(SIGUSR1, &action, nullptr);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  std::string data(3 << 20, 0);
  Random random(test_seed());
  for (char& c : data) c = static_cast<char>(random.next());
  const pthread_t writer = pthread_self();
  std::string read_back;
  std::thread reader([&] {
    std::string piece(1 << 16, 0);
    Random lengths(test_seed() + 1);
    while (read_back.size() < data.size()) {
      pthread_kill(writer, SIGUSR1);
      const ssize_t n = read(ends[0], piece.data(), 1 + lengths.below(piece.size()));
      ASSERT_GT(n, 0);
      read_back.append(piece.data(), static_cast<std::size_t>(n));
    }
  });
  write_all(ends[1], data.data(), data.size());
  reader.join();
  EXPECT_TRUE(read_back == data);
  close(ends[0]);
  close(ends[1]);
}

TEST(CheckDeathTest, AFailedCheckNamesItself) {
  EXPECT_DEATH(FREEWAY_CHECK(1 + 1 == 3), "freeway: internal error: 1 \\+ 1 == 3 is false, report_test.cc:[0-9]+\n");
}

TEST(CheckDeathTest, DyingCannotBeCaught) {
  EXPECT_EXIT(
      {
        signal(SIGABRT, [](int) {});
        die();
      },
      testing::KilledBySignal(SIGABRT), "");
}

}  // namespace
}  // namespace freeway::test
