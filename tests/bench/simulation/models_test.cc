// SPDX-License-Identifier: MIT
//
// Tests of the models: what they keep the number of, what their parameters do, and the sizes of their events.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/bench/simulation/small_models.h"

namespace simulation::test {
namespace {

// Runs `model` by one thread and hands the world to `look` before it goes.
template <class Model, class Look> void look_after(const Model& model, Time end, Look look) {
  Settings settings;
  settings.end = end;
  World<Model> world(model, settings);
  SequentialExecutor<Model> executor(world);
  executor.run();
  look(world, executor.counts());
}

TEST(Events, PayloadsHaveThePapersSizes) {
  EXPECT_EQ(sizeof(Phold::Payload), 8u);
  EXPECT_EQ(sizeof(Pcs::Payload), 36u);
  EXPECT_EQ(sizeof(Event<Phold::Payload>), 72u);
  EXPECT_EQ(sizeof(Event<Pcs::Payload>), 104u);
  EXPECT_EQ(sizeof(Event<Airport::Payload>), 88u);
}

TEST(RandomStream, ExponentialTimesHaveTheirMean) {
  RandomStream random(1, 1);
  double sum = 0;
  for (int i = 0; i < 100000; ++i) sum += static_cast<double>(random.exponential(1'000'000));
  EXPECT_NEAR(sum / 100000, 1e6, 1.5e4);  // five standard errors of a mean of 10^5
}

TEST(RandomStream, ProcessesAndSeedsHaveTheirOwn) {
  RandomStream a(1, 1), b(1, 2), c(2, 1), again(1, 1);
  const std::uint64_t first = a.next();
  EXPECT_NE(first, b.next());
  EXPECT_NE(first, c.next());
  EXPECT_EQ(first, again.next());
}

TEST(Grid, NeighboursAreMutual) {
  const Grid grid(5);
  for (ProcessId cell = 0; cell < grid.cells(); ++cell)
    for (std::uint32_t direction = 0; direction < 4; ++direction) {
      const ProcessId other = grid.neighbour(cell, direction);
      EXPECT_LT(other, grid.cells());
      EXPECT_NE(other, cell);
      EXPECT_EQ(grid.neighbour(other, direction ^ 1), cell);
    }
}

TEST(PholdModel, EventsStayAsManyAsTheyWere) {
  look_after(small_phold(50), 1000, [](auto& world, const BlockCounts& counts) {
    EXPECT_EQ(counts.allocated, world.committed() + 13 * 3) << "each event sends one; the last ones are left over";
    EXPECT_NEAR(static_cast<double>(world.committed()), 13 * 3 * 1000 / 20.0, 200);
  });
}

// With threads: the share of events for another process, and of frees by another thread, is what --remote says.
TEST(PholdModel, TheRemoteShareIsAsAskedFor) {
  for (const std::uint32_t remote : {0u, 30u, 100u}) {
    Settings settings;
    settings.threads = 4;
    settings.end = 4000;
    const Phold model({.processes = 64, .events = 4, .remote = remote, .mean = 20, .lookahead = 2});
    const Outcome outcome = run(model, settings, Synchronisation::kConservative);
    EXPECT_NEAR(outcome.blocks.remote_percent(), remote * 3 / 4.0, 1.5) << remote;
  }
}

TEST(PcsModel, ChannelsAndPhonesAreKept) {
  look_after(small_pcs(), 3000, [](auto& world, const BlockCounts& counts) {
    EXPECT_EQ(counts.allocated, world.committed() + 16 * 3) << "each phone has one event";
    std::uint64_t blocked = 0, dropped = 0, busy = 0;
    for (const auto& process : world.processes) {
      EXPECT_LE(process.now.state.free_channels, 2u);
      EXPECT_LE(process.now.state.blocked, process.now.state.attempts);
      EXPECT_LE(process.now.state.dropped, process.now.state.entered);
      blocked += process.now.state.blocked;
      dropped += process.now.state.dropped;
      busy += process.now.state.busy;
    }
    EXPECT_GT(blocked, 0u);
    EXPECT_GT(dropped, 0u);
    EXPECT_GT(busy, 0u);
  });
}

// 10 channels that serve calls of 180 s: with 200 phones a cell they are nearly always all taken.
TEST(PcsModel, ACrowdedCellBlocksMostCalls) {
  const Pcs::Parameters parameters{
      .side = 4, .phones = 200, .channels = 10, .mean_pause = 360, .mean_call = 180, .mean_stay = 4500, .hand_off = 10};
  look_after(Pcs(parameters), 20000, [](auto& world, const BlockCounts&) {
    double attempts = 0, blocked = 0;
    for (const auto& process : world.processes) {
      attempts += process.now.state.attempts;
      blocked += process.now.state.blocked;
    }
    // Erlang's loss formula for 10 channels and about 100 erlangs: 0.90.
    EXPECT_NEAR(blocked / attempts, 0.90, 0.03);
  });
}

TEST(AirportModel, PlanesAreKept) {
  look_after(small_airport(), 3000, [](auto& world, const BlockCounts& counts) {
    EXPECT_EQ(counts.allocated, world.committed() + 16 * 3) << "each plane has one event";
    std::uint64_t here = 0, landings = 0;
    for (const auto& process : world.processes) {
      here += process.now.state.on_the_ground + process.now.state.in_the_sky;
      landings += process.now.state.landings;
    }
    EXPECT_LE(here, 16u * 3) << "the others are on their way";
    EXPECT_GE(here, 16u * 2);
    // A round of departure, flight and landing takes 20 + 8 + 6 ticks, and has three events.
    EXPECT_NEAR(static_cast<double>(landings), 16 * 3 * 3000 / 35.0, 300);
    EXPECT_NEAR(static_cast<double>(world.committed()), 3.0 * static_cast<double>(landings), 16 * 3 * 3);
  });
}

}  // namespace
}  // namespace simulation::test
