// SPDX-License-Identifier: MIT
//
// write_after_free SIZE plain|linked: the first 16 bytes of a freed block become the attacker's address, as it is, or
// as glibc encodes links (xor the link's own address / 4096). Exploitable: malloc hands out what the attacker named,
// or damages a live block.
#include "attack.h"

int main(int argc, char** argv) {
  using namespace attack;
  const size_t size = start(argc, argv);
  const bool linked = argc > 2 && strcmp(argv[2], "linked") == 0;
  settle(size);
  take(size);
  take(size);
  Block& last = blocks[count - 1];
  give(blocks[count - 2]);
  give(last);
  const uintptr_t wanted = address(target + 4096);
  const uintptr_t link = linked ? wanted ^ (address(last.start) >> 12) : wanted;
  const uintptr_t links[2] = {link, link};
  begin();
  memcpy(hide(last.start), links, sizeof links);
  done();
  aftermath(size);
  unharmed();
}
