// SPDX-License-Identifier: MIT
//
// Tests of Inbox: each sender's messages come out in its order, once each.
#include "simulation/inbox.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <deque>
#include <thread>
#include <vector>

namespace simulation {
namespace {

struct Numbered : Message {
  Numbered(std::size_t from, std::size_t place) : Message{nullptr, Kind::kEvent}, sender(from), number(place) {}
  std::size_t sender, number;
};

TEST(Inbox, AnEmptyInboxHasNothing) {
  Inbox inbox;
  EXPECT_EQ(inbox.take_all(), nullptr);
}

TEST(Inbox, MessagesComeOutOldestFirst) {
  Inbox inbox;
  Numbered first(0, 1), second(0, 2), third(0, 3);
  inbox.push(&first);
  inbox.push(&second);
  EXPECT_EQ(inbox.take_all(), &first);
  EXPECT_EQ(first.next, &second);
  EXPECT_EQ(second.next, nullptr);
  inbox.push(&third);
  EXPECT_EQ(inbox.take_all(), &third);
  EXPECT_EQ(inbox.take_all(), nullptr);
}

TEST(Inbox, NoSendersOrderIsLostBetweenThreads) {
  constexpr std::size_t kSenders = 3, kEach = 20000;
  Inbox inbox;
  std::vector<std::deque<Numbered>> messages(kSenders);
  std::vector<std::thread> senders;
  for (std::size_t s = 0; s < kSenders; ++s)
    senders.emplace_back([&, s] {
      for (std::size_t i = 0; i < kEach; ++i) {
        inbox.push(&messages[s].emplace_back(s, i));
        if (i % 1000 == 0) std::this_thread::yield();
      }
    });
  std::vector<std::size_t> next(kSenders, 0);
  bool in_order = true;
  for (std::size_t received = 0; received < kSenders * kEach;) {
    Message* message = inbox.take_all();
    if (message == nullptr) std::this_thread::yield();
    for (; message != nullptr; message = message->next, ++received) {
      const auto* numbered = static_cast<Numbered*>(message);
      in_order = in_order && numbered->number == next[numbered->sender]++;
    }
  }
  for (std::thread& sender : senders) sender.join();
  EXPECT_TRUE(in_order);
  EXPECT_EQ(inbox.take_all(), nullptr);
}

}  // namespace
}  // namespace simulation
