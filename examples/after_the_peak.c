// SPDX-License-Identifier: MIT
//
// after_the_peak: a server that holds much more memory than it has live blocks, for docs/profiles.md to explain. Its
// cache is filled at the start. At the peak each request takes a block, and now and then a session begins, whose block
// is of the same size. Then these requests are over, the sessions stay, and few requests come.
#include <stdlib.h>

enum { kBytes = 500, kCached = 20000, kRequests = 100000, kEverySession = 100, kQuiet = 500, kQuietRequests = 100000 };

static void* volatile cache[kCached], * volatile requests[kRequests], * volatile sessions[kRequests / kEverySession];

__attribute__((noinline)) void fill_cache(void) {
  for (int i = 0; i < kCached; ++i) cache[i] = malloc(kBytes);
}

__attribute__((noinline)) void begin_session(int i) { sessions[i] = malloc(kBytes); }

__attribute__((noinline)) void serve_request(int i) {
  free(requests[i]);
  requests[i] = malloc(kBytes);
}

int main(void) {
  fill_cache();
  for (int i = 0; i < kRequests; ++i) {
    serve_request(i);
    if (i % kEverySession == 0) begin_session(i / kEverySession);
  }
  // They end in another order than they began.
  for (long i = 0, at = 0; i < kRequests; ++i, at = (at + 7919) % kRequests) {
    free(requests[at]);
    requests[at] = NULL;
  }
  for (long i = 0, at = 0; i < kQuietRequests; ++i, at = (at + 37) % kQuiet) serve_request((int)at);
  return 0;
}
