(* SPDX-License-Identifier: MIT *)
(* tables.v: what the functions that the proofs are about compute, for the arguments of tie/tables.cc in its order.

   Each line that is evaluated here is a line that tie/tables.cc prints with the shipped headers; the build compares them. *)
From Coq Require Import ZArith List.
From stdpp Require Import prelude.
From freeway Require Import anchor chunk_word.
Import ListNotations.
Open Scope Z_scope.

Definition two : list Z := [0; 1].
Definition u64 (z : Z) : Z := z mod 18446744073709551616.

(* Counts near the ends of what the fields hold, and near the widths' ends; two classes; few and most words. *)
Definition corners : list Z := [-524288; -262144; -3; -2; -1; 0; 1; 2; 3; 63; 64; 65; 262143; 524287].
Definition fulls : list Z := [-262144; -2; -1; 0; 1; 2; 63; 64; 262143].
Definition shapes : list (Z * Z) := [(0, 1); (1, 2); (45, 64); (255, 262143)].

Definition anchors (c : Z) : list Z :=
  flat_map (fun u => flat_map (fun h => flat_map (fun e => flat_map (fun nz => map (fun fw =>
    u + 2 * h + 4 * c + 1024 * e + 4096 * nz + 4294967296 * fw) fulls) corners) two) two) two.

(* Words at random, from a sequence that both languages make: x -> 6364136223846793005 x + 1442695040888963407. *)
Fixpoint random (n : nat) (x : Z) : list Z :=
  match n with O => [] | S k => x :: random k (u64 (6364136223846793005 * x + 1442695040888963407)) end.

Definition anchor_row (c W a : Z) : list Z :=
  [Z.b2z (unlb a) + 2 * Z.b2z (heldb a) + 4 * Z.b2z (entb a) + 8 * Z.b2z (emptyb c W a) + 16 * Z.b2z (in_use c W (u64 a)) +
     32 * Z.b2z (wants_listing a) + 64 * Z.b2z (may_take c W a);
   u64 (nz_of a); class_of a; u64 (fst (popped c W a)); snd (popped c W a)].
Definition let_go_row (c W a owed : Z) : list Z := [u64 (fst (let_go c W a owed)); snd (let_go c W a owed)].

Definition owings : list Z :=
  [0; 4096; 4294967296; 4294971392; -4096; -4294967296; 3 * 4294971392; 64 * 4294971392; 262143 * 4294971392].
Definition some_anchors (c : Z) : list Z :=
  flat_map (fun u => flat_map (fun h => flat_map (fun e => flat_map (fun nz => map (fun fw =>
    u + 2 * h + 4 * c + 1024 * e + 4096 * nz + 4294967296 * fw) [-1; 0; 1; 2; 63; 64; 262143]) [-1; 0; 1; 2; 63; 64;
    262143]) two) two) two.

(* A checksum of a list: too many rows to print. *)
Definition sum (l : list Z) : Z := fold_left (fun s x => u64 (s * 31 + x + 1)) l 7.

Definition anchor_sums : list Z := map (fun s => sum (flat_map (anchor_row (fst s) (snd s)) (anchors (fst s)))) shapes.
Definition random_sums : list Z := map (fun s => sum (flat_map (anchor_row (fst s) (snd s)) (random 2000 (fst s)))) shapes.
Definition let_go_sums : list Z :=
  map (fun s => sum (flat_map (fun o => flat_map (fun a => let_go_row (fst s) (snd s) a o)
    (some_anchors (fst s) ++ random 200 (snd s))) owings)) shapes.
Definition born_row : list Z := map (fun s => u64 (born (fst s) (snd s))) shapes.

(* A word of four bits stands for one of 64 here: plus, is_over and minus look at no width. All old, mask, full. *)
Definition nibbles : list Z := map Z.of_nat (seq 0 16).
Definition word_rows : list Z :=
  flat_map (fun o => flat_map (fun m => flat_map (fun f => [plus o m f; Z.b2z (overb o m f);
  minus o m f]) nibbles) nibbles) nibbles.
(* And words whose bits are anywhere. *)
Definition far : list Z := [0; 1; 9223372036854775808; 9223372036854775809; 18446744073709551614; 18446744073709551615; 4294967296].
Definition far_rows : list Z :=
  flat_map (fun o => flat_map (fun m => flat_map (fun f => [plus o m f; Z.b2z (overb o m f); minus o m f]) far) far) far.

(* The chunk word. *)
Definition runs : list Z := map (fun n => Z.of_nat n) (seq 1 64).
Definition alignments : list Z := [1; 2; 4; 8; 16; 32; 64].
Definition used_words : list Z :=
  [0; 1; 2; 9223372036854775808; 18446744073709551614; 9223372036854775807; 6148914691236517205; 12297829382473034410;
   1085102592571150095; 18374686479671623680; 281474976645120; 65536; 18446462603027742720] ++ random 8 5.
Definition chunk_rows : list Z :=
  flat_map (fun u => flat_map (fun n => run_starts u n :: map (fun a => find_run u n a) alignments) runs) used_words.
Definition run_masks : list Z := flat_map (fun f => map (fun n => run_mask f n) (filter (fun n => f + n <= 64) runs)) (0 :: runs).
Definition lowest_runs : list Z := map lowest_run (filter (fun u => u <> 0) (used_words ++ random 200 77)).
Definition starts : list Z := map aligned_starts alignments.

(* The head of a tagged stack: index:26 | tag:38 (tagged_stack.v's B is 2^26). *)
Definition next_rows : list Z :=
  flat_map (fun h => map (fun n => u64 (h - h mod 67108864 + 67108864 + n)) [0; 1; 67108863]) (random 100 9 ++ far) ++
  map (fun h => h mod 67108864) (random 100 9).

Eval vm_compute in anchor_sums ++ random_sums ++ let_go_sums ++ born_row.
Eval vm_compute in [sum word_rows; sum far_rows].
Eval vm_compute in [sum chunk_rows; sum run_masks; sum lowest_runs; sum starts].
Eval vm_compute in [sum next_rows].
