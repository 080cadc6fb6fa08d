(* SPDX-License-Identifier: MIT *)
(* chunk_word.v: the pure functions of src/pages/chunk_word.h on integers, and what they find. No Iris.

   Stands for  src/pages/chunk_word.h; tables.v and tie/ compare the two
   Main lemmas run_starts_spec: a bit of the result is set exactly where a run of that many free frames begins, for all
               words of 64 bits and all lengths; find_run_spec: what is found is such a run, at a multiple of the alignment *)
From Coq Require Import ssreflect ZArith Lia.
From stdpp Require Import prelude.
From iris.prelude Require Import options.
Open Scope Z_scope.

Definition run_mask (first frames : Z) : Z := Z.shiftl (Z.ones frames) first.

(* Each bit of `starts` begins a run of `have` zeros. *)
Fixpoint grow (steps : nat) (starts have frames : Z) : Z :=
  match steps with
  | O => starts
  | S k =>
    if bool_decide (have < frames) && negb (bool_decide (starts = 0)) then
      let step := Z.min (frames - have) have in grow k (Z.land starts (Z.shiftr starts step)) (have + step) frames
    else starts
  end.
Definition run_starts (used frames : Z) : Z := grow 6 (Z.land (Z.lnot used) (Z.ones 64)) 1 frames.

Fixpoint align_up_to (steps : nat) (bits step : Z) : Z :=
  match steps with
  | O => bits
  | S k => if bool_decide (step < 64) then align_up_to k (Z.lor bits (Z.shiftl bits step)) (step * 2) else bits
  end.
Definition aligned_starts (alignment : Z) : Z := align_up_to 6 1 alignment.

(* The lowest bit that is set, of the bits from i on; 64 if none is. *)
Fixpoint lowest_from (n : nat) (i x : Z) : Z :=
  match n with O => 64 | S k => if Z.testbit x i then i else lowest_from k (i + 1) x end.
Definition lowest_bit (x : Z) : Z := lowest_from 64 0 x.
Definition find_run (used frames alignment : Z) : Z := lowest_bit (Z.land (run_starts used frames) (aligned_starts alignment)).
Definition lowest_run (bits : Z) : Z :=
  let first := lowest_bit bits in
  let length := lowest_bit (Z.land (Z.lnot (Z.shiftr bits first)) (Z.ones 64)) in
  run_mask first (Z.min length (64 - first)).

Lemma run_mask_spec first frames i :
  0 ≤ first → 0 ≤ frames → 0 ≤ i → Z.testbit (run_mask first frames) i = bool_decide (first ≤ i < first + frames).
Proof.
  intros Hf Hn Hi. unfold run_mask. rewrite Z.shiftl_spec // Z.testbit_ones; [lia|].
  apply eq_true_iff_eq. rewrite bool_decide_eq_true andb_true_iff Z.leb_le Z.ltb_lt. lia.
Qed.

Lemma grow_spec used frames steps starts have :
  1 ≤ have ≤ frames → frames ≤ have * 2 ^ Z.of_nat steps →
  (∀ i, 0 ≤ i → Z.testbit starts i = true ↔ ∀ k, 0 ≤ k < have → i + k < 64 ∧ Z.testbit used (i + k) = false) →
  ∀ i, 0 ≤ i → Z.testbit (grow steps starts have frames) i = true ↔
    ∀ k, 0 ≤ k < frames → i + k < 64 ∧ Z.testbit used (i + k) = false.
Proof.
  revert starts have. induction steps as [|n IH]; intros starts have Hh Hp Hs.
  { rewrite Z.pow_0_r in Hp. assert (have = frames) as -> by lia. done. }
  simpl. destruct (bool_decide (have < frames)) eqn:Hlt; simpl.
  2:{ apply bool_decide_eq_false in Hlt. assert (have = frames) as -> by lia. done. }
  apply bool_decide_eq_true in Hlt. destruct (bool_decide (starts = 0)) eqn:H0; simpl.
  - apply bool_decide_eq_true in H0 as ->. intros i Hi. rewrite Z.bits_0. split; [done|]. intros Hk.
    rewrite -(Z.bits_0 i). apply Hs; [done|]. intros k Hk'. apply Hk. lia.
  - apply IH.
    + lia.
    + rewrite Nat2Z.inj_succ Z.pow_succ_r in Hp; try lia. assert (0 < 2 ^ Z.of_nat n) by (apply Z.pow_pos_nonneg; lia).
      destruct (Z.min_spec (frames - have) have) as [[? ->]|[? ->]]; nia.
    + intros i Hi. rewrite Z.land_spec Z.shiftr_spec // andb_true_iff (Hs i) // (Hs (i + Z.min (frames - have) have)); try lia.
      split.
      * intros [H1 H2] k Hk. destruct (Z.lt_ge_cases k have) as [Hl|Hg]; [apply H1; lia|].
        specialize (H2 (k - Z.min (frames - have) have)).
        replace (i + Z.min (frames - have) have + (k - Z.min (frames - have) have))
          with (i + k) in H2 by lia. apply H2. lia.
      * intros H. split; intros k Hk; [apply H; lia|]. rewrite -Z.add_assoc. apply H. lia.
Qed.
Lemma run_starts_spec used frames i :
  1 ≤ frames ≤ 64 → 0 ≤ i →
  Z.testbit (run_starts used frames) i = true ↔ ∀ k, 0 ≤ k < frames → i + k < 64 ∧ Z.testbit used (i + k) = false.
Proof.
  intros Hn Hi. unfold run_starts. apply grow_spec; [lia|change (2 ^ Z.of_nat 6) with 64; lia| |done]. clear i Hi. intros i Hi.
  rewrite Z.land_spec Z.lnot_spec // Z.testbit_ones; try lia. rewrite !andb_true_iff negb_true_iff Z.leb_le Z.ltb_lt. split.
  - intros (H1 & _ & H2) k Hk. assert (k = 0) as -> by lia. rewrite Z.add_0_r. done.
  - intros H. destruct (H 0) as [H1 H2]; [lia|]. rewrite Z.add_0_r in H1 H2. split_and!; [done|lia..].
Qed.

Lemma lowest_from_spec n i x :
  0 ≤ i → i + Z.of_nat n = 64 → let j := lowest_from n i x in (j = 64 ∨ (i ≤ j < 64 ∧ Z.testbit x j = true)).
Proof.
  revert i. induction n as [|n IH]; intros i Hi Hn; simpl; [by left|].
  destruct (Z.testbit x i) eqn:Ht; [right; split; [lia|done]|].
  destruct (IH (i + 1)) as [H|[H1 H2]]; [lia..|by left|right; split; [lia|done]].
Qed.
(* What find_run finds: none of the run's frames is used, and it lies within the chunk. *)
Lemma find_run_spec used frames alignment :
  1 ≤ frames ≤ 64 → let f := find_run used frames alignment in
  f = 64 ∨ (0 ≤ f ∧ f + frames ≤ 64 ∧ Z.testbit (aligned_starts alignment) f = true ∧
            Z.land used (run_mask f frames) = 0).
Proof.
  intros Hn f.
  assert (f = 64 ∨ (0 ≤ f < 64 ∧ Z.testbit (Z.land (run_starts used frames) (aligned_starts alignment)) f = true)) as [H|[H1 H2]]
    by (apply (lowest_from_spec 64 0); [lia|done]); [by left|right]. clearbody f.
  rewrite Z.land_spec in H2. apply andb_true_iff in H2 as [H2 H3].
  pose proof (proj1 (run_starts_spec used frames f Hn (proj1 H1)) H2) as H4. split_and!; [lia| |done|].
  - destruct (H4 (frames - 1)); lia.
  - apply Z.bits_inj'. intros i Hi. rewrite Z.bits_0 Z.land_spec run_mask_spec; try lia.
    case_bool_decide as Hb; [|by rewrite andb_false_r]. rewrite andb_true_r.
    destruct (H4 (i - f)) as [_ H5]; [lia|]. rewrite -H5. f_equal. lia.
Qed.
