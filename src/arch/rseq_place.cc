// SPDX-License-Identifier: MIT
#include "arch/rseq_place.h"

extern "C" {
constinit FREEWAY_HIDDEN freeway::RseqPlace freeway_rseq = {};
}
