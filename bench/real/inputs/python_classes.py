# SPDX-License-Identifier: MIT
#
# python_classes.py: objects of small classes that point at each other: a search tree with deletions, a graph with a
# shortest-path search, an interpreter of expressions. Prints a checksum.
"""Programs of objects."""

from __future__ import annotations

import heapq
import random
import sys
from collections import namedtuple
from dataclasses import dataclass, field


class Node:
    """A node of a treap."""

    __slots__ = ("key", "left", "priority", "right", "value")

    def __init__(self, key: int, priority: float, value: str) -> None:
        self.key, self.priority, self.value = key, priority, value
        self.left: Node | None = None
        self.right: Node | None = None


def split(node: Node | None, key: int) -> tuple[Node | None, Node | None]:
    """Keys below `key`, and the others."""
    if node is None:
        return None, None
    if node.key < key:
        node.right, rest = split(node.right, key)
        return node, rest
    rest, node.left = split(node.left, key)
    return rest, node


def merge(low: Node | None, high: Node | None) -> Node | None:
    """One tree; all keys of `low` are below those of `high`."""
    if low is None or high is None:
        return low or high
    if low.priority > high.priority:
        low.right = merge(low.right, high)
        return low
    high.left = merge(low, high.left)
    return high


def tree_job(source: random.Random, count: int) -> int:
    """Inserts, and deletes two of three."""
    root: Node | None = None
    total = 0
    for i in range(count):
        key = source.randrange(count * 4)
        low, high = split(root, key)
        root = merge(merge(low, Node(key, source.random(), f"value {i}")), high)
        if i % 3:
            victim = source.randrange(count * 4)
            low, rest = split(root, victim)
            middle, high = split(rest, victim + 50)
            while middle is not None:
                total += len(middle.value) + middle.key
                middle = merge(middle.left, middle.right)
            root = merge(low, high)
    return total


@dataclass
class Place:
    """A vertex, with its roads in a list of tuples."""

    name: str
    roads: list[tuple[int, int]] = field(default_factory=list)
    seen: dict[str, float] = field(default_factory=dict)


Step = namedtuple("Step", "distance place hops")


def graph_job(source: random.Random, count: int) -> int:
    """Shortest paths from a few places."""
    places = [Place(f"place {i}") for i in range(count)]
    for i, place in enumerate(places):
        place.roads = [(source.randrange(1, 100), source.randrange(count)) for _ in range(5)]
        place.roads.append((40, (i + 1) % count))
    total = 0
    for start in range(3):
        best: dict[int, Step] = {}
        queue = [Step(0, start, 0)]
        while queue:
            step = heapq.heappop(queue)
            if step.place in best:
                continue
            best[step.place] = step
            places[step.place].seen[f"from {start}"] = float(step.distance)
            for length, other in places[step.place].roads:
                if other not in best:
                    heapq.heappush(queue, Step(step.distance + length, other, step.hops + 1))
        total += sum(step.distance * step.hops for step in best.values())
    return total


class Expression:
    """A number."""

    def __init__(self, value: int) -> None:
        self.value = value

    def evaluate(self, variables: dict[str, int]) -> int:
        """Its value."""
        return self.value


class Variable(Expression):
    """A name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def evaluate(self, variables: dict[str, int]) -> int:
        """Its value."""
        return variables.get(self.name, 1)


class Operation(Expression):
    """Two expressions."""

    def __init__(self, sign: str, left: Expression, right: Expression) -> None:
        self.sign, self.left, self.right = sign, left, right

    def evaluate(self, variables: dict[str, int]) -> int:
        """Its value, modulo a prime."""
        a, b = self.left.evaluate(variables), self.right.evaluate(variables)
        return {"+": a + b, "-": a - b, "*": a * b}[self.sign] % 1_000_003


def grow(source: random.Random, depth: int) -> Expression:
    """A random expression."""
    if depth == 0:
        return Variable("abc"[source.randrange(3)]) if source.random() < 0.5 else Expression(source.randrange(100))
    return Operation("+-*"[source.randrange(3)], grow(source, depth - 1), grow(source, depth - 1))


def expression_job(source: random.Random, count: int) -> int:
    """Builds and evaluates trees, a few alive at a time."""
    kept: list[Expression] = []
    total = 0
    for i in range(count):
        kept.append(grow(source, 7))
        if len(kept) > 30:
            kept.pop(source.randrange(len(kept)))
        total += sum(tree.evaluate({"a": i, "b": i + 1}) for tree in kept[-2:])
    return total


def main(rounds: int) -> None:
    """All jobs, `rounds` times."""
    source = random.Random(1996)
    total = 0
    for _ in range(rounds):
        total += tree_job(source, 5000) + graph_job(source, 3000) + expression_job(source, 300)
    print(total)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 6)
