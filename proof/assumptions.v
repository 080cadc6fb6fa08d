(* SPDX-License-Identifier: MIT *)
(* assumptions.v: what the theorems rest on. The build fails if any answer is other than "Closed under the global context". *)
From freeway Require Import bits anchor chunk_word counts conservation superblock_state superblock superblock_init tagged_stack pages restartable heap closed.

Print Assumptions blocks_exclusive.
Print Assumptions superblock.free_group_spec.
Print Assumptions take_bits_spec.
Print Assumptions put_bits_spec.
Print Assumptions let_go_spec.
Print Assumptions adopt_spec.
Print Assumptions take_at_spec.
Print Assumptions birth_spec.
Print Assumptions sb_init.
Print Assumptions push_spec.
Print Assumptions pop_spec.
Print Assumptions claim_frames_spec.
Print Assumptions give_frames_spec.
Print Assumptions rseq_rule.
Print Assumptions heap.malloc_spec.
Print Assumptions heap.free_spec.
Print Assumptions heap_init.
Print Assumptions heap_is_safe.
Print Assumptions workers_are_safe.
Print Assumptions run_starts_spec.
Print Assumptions find_run_spec.
Print Assumptions emptyb_low.
Print Assumptions nothing_is_lost.
Print Assumptions heap_loses_nothing.
