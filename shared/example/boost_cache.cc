// SPDX-License-Identifier: MIT
//
// boost_cache: shared_cache with Boost.Interprocess in Freeway's place: it hangs as soon as a worker is killed in the
// mutex.
#include "boost_heap.h"
#include "supervisor.h"

int main(int argc, char** argv) { return cache::demonstrate<cache::BoostHeap>(argc, argv); }
