# SPDX-License-Identifier: MIT
# The paper's layout: pointers at 8 mod 16, blocks from the superblock's start. For benchmarks only: malloc must align to 16.
freeway_add_engine(michael VARIANT paper-layout DEFINES FREEWAY_MICHAEL_PAPER_LAYOUT=1)
