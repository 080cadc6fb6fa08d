// SPDX-License-Identifier: MIT
//
// shared_cache: workers that share a cache in Freeway's shared heap, and are killed by the thousand. README.md says
// more.
#include "freeway_heap.h"
#include "supervisor.h"

int main(int argc, char** argv) { return cache::demonstrate<cache::FreewayHeap>(argc, argv); }
