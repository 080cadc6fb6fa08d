// SPDX-License-Identifier: MIT
//
// barnes: the tree has one shape, forces are the direct sum's within what the opening angle allows, and positions are
// equal to the last bit for every number of threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "streamflow/barnes_hut.h"

namespace {

using bench::Malloc;
using bodies::Body;
using bodies::Key;
using bodies::Node;
using bodies::Parameters;
using bodies::Vector;

std::vector<Body> cluster(std::size_t count) {
  bodies::Plummer plummer(3);
  std::vector<Body> all;
  for (std::size_t i = 0; i < count; ++i) all.push_back(plummer.next(1.0 / static_cast<double>(count)));
  return all;
}

// A tree of all bodies, inserted in this order.
struct Built {
  Built(const std::vector<Body>& all, const std::vector<std::uint32_t>& order)
      : half(bodies::half_cube(all.data(), all.size())), keys(all.size()), tree(all.data(), keys.data()) {
    for (std::size_t i = 0; i < all.size(); ++i) keys[i] = bodies::key_of(all[i].position, half);
    for (const std::uint32_t body : order) tree.insert(root, body, 0);
    tree.weigh(root);
  }
  ~Built() { tree.free(root); }
  double half;
  std::vector<Key> keys;
  bodies::Octree<Malloc> tree;
  Node* root = nullptr;
};

std::vector<std::uint32_t> in_order(std::size_t count) {
  std::vector<std::uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0u);
  return order;
}

void expect_same_tree(const Node* a, const Node* b) {
  for (; a != nullptr && b != nullptr; a = a->sibling, b = b->sibling) {
    ASSERT_EQ(a->body, b->body);
    ASSERT_EQ(a->octant, b->octant);
    if (!bodies::is_cell(a)) continue;
    const auto *cell_a = static_cast<const bodies::Cell*>(a), *cell_b = static_cast<const bodies::Cell*>(b);
    ASSERT_EQ(cell_a->mass, cell_b->mass);
    ASSERT_EQ(cell_a->centre.x, cell_b->centre.x);
    ASSERT_NO_FATAL_FAILURE(expect_same_tree(cell_a->child, cell_b->child));
  }
  ASSERT_EQ(a, nullptr);
  ASSERT_EQ(b, nullptr);
}

Vector direct_sum(const std::vector<Body>& all, std::size_t self, double softening) {
  Vector sum;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i == self) continue;
    const Vector way = all[i].position - all[self].position;
    const double distance2 = way.squared() + softening * softening;
    sum += (all[i].mass / (distance2 * std::sqrt(distance2))) * way;
  }
  return sum;
}

// Root of the mean squared error, relative to the mean squared force.
double force_error(const std::vector<Body>& all, const Built& built, double theta) {
  const bodies::Gravity gravity(theta, 0.05, all.data());
  double error2 = 0, force2 = 0;
  for (std::uint32_t i = 0; i < all.size(); ++i) {
    const Vector exact = direct_sum(all, i, 0.05);
    error2 += (gravity.at(i, built.root, 2 * built.half) - exact).squared();
    force2 += exact.squared();
  }
  return std::sqrt(error2 / force2);
}

TEST(Octree, HasOneShapeWhateverTheOrder) {
  const std::vector<Body> all = cluster(3000);
  std::vector<std::uint32_t> order = in_order(all.size());
  const Built first(all, order);
  bench::Random random(1);
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  const Built second(all, order);
  expect_same_tree(first.root, second.root);
}

TEST(Octree, BodiesInTheSamePlaceShareTheDeepestCell) {
  std::vector<Body> all = cluster(20);
  for (std::size_t i = 5; i < 9; ++i) all[i].position = all[4].position;
  const Built built(all, in_order(all.size()));
  EXPECT_LT(force_error(all, built, 1e-9), 1e-12);
  EXPECT_NEAR(static_cast<const bodies::Cell*>(built.root)->mass, 1, 1e-12);
}

TEST(Gravity, IsTheDirectSumWithinTheOpeningAnglesError) {
  const std::vector<Body> all = cluster(2000);
  const Built built(all, in_order(all.size()));
  EXPECT_LT(force_error(all, built, 1e-9), 1e-12);  // every cell opened: the same sum in another order
  const double fine = force_error(all, built, 0.3), coarse = force_error(all, built, 1.0);
  EXPECT_LT(fine, 0.003);
  EXPECT_LT(coarse, 0.05);
  EXPECT_GT(coarse, fine);
  EXPECT_GT(fine, 1e-9);  // it did approximate
}

TEST(Bodies, SortedByKeyThenNumber) {
  bench::Random random(2);
  bench::MappedArray<bodies::Sorted> items(5000), scratch(5000);
  for (std::size_t i = 0; i < items.size(); ++i) items[i] = {i % 3 == 0 ? random.below(10) : random.next() >> 1, i};
  std::vector<bodies::Sorted> expected(items.begin(), items.end());
  std::stable_sort(expected.begin(), expected.end(), [](const auto& a, const auto& b) { return a.key < b.key; });
  bodies::sort_by_key(items, scratch);
  for (std::size_t i = 0; i < items.size(); ++i) {
    ASSERT_EQ(items[i].key, expected[i].key);
    ASSERT_EQ(items[i].body, expected[i].body);
  }
}

std::vector<Vector> positions_after(const Parameters& parameters, std::size_t threads) {
  bench::Scheduler<Malloc> scheduler(threads);
  bodies::System<Malloc> system(parameters, 1);
  for (unsigned step = 0; step < parameters.steps; ++step) system.step(scheduler);
  system.take_down(scheduler);
  std::vector<Vector> positions;
  for (std::size_t i = 0; i < parameters.bodies; ++i) positions.push_back(system.all()[i].position);
  return positions;
}

TEST(System, PositionsAreEqualToTheLastBitForEveryNumberOfThreads) {
  for (const std::size_t count : {3, 4000}) {
    const Parameters parameters{count, 4, 0.025, 1.0, 0.05};
    const std::vector<Vector> one = positions_after(parameters, 1);
    for (const std::size_t threads : {2, 5, 8}) {
      const std::vector<Vector> other = positions_after(parameters, threads);
      for (std::size_t i = 0; i < count; ++i) {
        ASSERT_EQ(other[i].x, one[i].x) << "body " << i << ", " << threads << " threads";
        ASSERT_EQ(other[i].y, one[i].y);
        ASSERT_EQ(other[i].z, one[i].z);
      }
    }
  }
}

TEST(System, TheWholeTreesForcesAreThoseOfTheDirectSum) {
  constexpr std::size_t kBodies = 3000;
  bench::Scheduler<Malloc> scheduler(3);
  bodies::System<Malloc> system({kBodies, 1, 0.025, 1e-9, 0.05}, 1);
  system.accelerate(scheduler);
  const std::vector<Body> all(system.all(), system.all() + kBodies);
  for (std::size_t i = 0; i < kBodies; i += 7) {
    const Vector exact = direct_sum(all, i, 0.05);
    ASSERT_LT((all[i].acceleration - exact).squared(), 1e-22 * exact.squared()) << "body " << i;
  }
  system.take_down(scheduler);
}

TEST(System, PresetIsTable1) {
  EXPECT_EQ(bodies::kStreamflow.bodies, 131'072u);
  EXPECT_EQ(bodies::kStreamflow.steps, 10u);
  EXPECT_EQ(bodies::kStreamflow.step, 0.025);
}

}  // namespace
