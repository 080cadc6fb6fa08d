# SPDX-License-Identifier: MIT
#
# local: every block of malloc is local: what the paper's local route costs, for programs with one thread.
# paper: the flag area of 8 bytes and local blocks in steps of 8, as in the paper. Its blocks lie at 8 modulo 16, where
#        malloc's may not: for measurements with programs that do not mind.
freeway_add_engine(hmalloc VARIANT local DEFINES FREEWAY_HMALLOC_ROUTE_LOCAL=1)
freeway_add_engine(hmalloc VARIANT paper DEFINES FREEWAY_HMALLOC_PAPER_LAYOUT=1)
