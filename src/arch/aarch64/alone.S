// SPDX-License-Identifier: MIT
// alone.S: no sections here: see alone.h.

#include "arch/aarch64/section.inc"

    END_OF_FILE
