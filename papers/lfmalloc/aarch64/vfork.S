// SPDX-License-Identifier: MIT
// vfork.S: vfork for a process whose threads use restartable sections: the flagship's (its child would otherwise enter,
// on its parent's memory, the heap of the CPU that its sleeping parent was on).
#include "malloc/aarch64/vfork.S"
