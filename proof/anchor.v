(* SPDX-License-Identifier: MIT *)
(* anchor.v: the pure functions of src/superblock/anchor.h on integers, and what they decode. No Iris.

   Stands for  src/superblock/anchor.h, function by function; tables.v and tie/ compare the two.
   Integers    are unbounded here. Each function reads some of the lowest 52 bits only, so it cannot tell an integer from
               that integer modulo 2^64 (last section).
   Main lemmas what is_empty, non_zero_words > 0 and the flags say of an anchor that encodes given fields (..._enc) *)
From Coq Require Import ssreflect ZArith Lia.
From iris.prelude Require Import prelude.
From stdpp Require Import prelude.
From iris.prelude Require Import options.
Open Scope Z_scope.

(* U:1 | HELD:1 | class:8 | ENTRY:1 | 0:1 | nz:20 signed | full:20; nz and fw may be any integers here. *)
Definition enc (c : Z) (u h e : bool) (nz fw : Z) : Z :=
  Z.b2z u + 2 * Z.b2z h + 4 * c + 1024 * Z.b2z e + 4096 * nz + 4294967296 * fw.

(* is_unlisted, is_held, has_entry, non_zero_words, non_zero_words > 0, empty_state, is_empty *)
Definition unlb (a : Z) : bool := negb (bool_decide (Z.land a 1 = 0)).
Definition heldb (a : Z) : bool := negb (bool_decide (Z.land a 2 = 0)).
Definition entb (a : Z) : bool := negb (bool_decide (Z.land a 1024 = 0)).
Definition nz_of (a : Z) : Z :=
  let x := Z.land (Z.shiftr a 12) 1048575 in if bool_decide (x < 524288) then x else x - 1048576.
Definition nzposb (a : Z) : bool :=
  let x := Z.land (Z.shiftr a 12) 1048575 in bool_decide (0 < x) && bool_decide (x < 524288).
Definition empty_state (c W : Z) : Z := 4 * c + W * 4294971392.
Definition emptyb (c W a : Z) : bool := bool_decide (Z.land a 4503599627370494 = empty_state c W).
Definition in_use (c W a : Z) : bool := negb (bool_decide (a = 0)) && (heldb a || negb (emptyb c W a)).
Definition class_of (a : Z) : Z := Z.land (Z.shiftr a 2) 255.
Definition born (c W : Z) : Z := Z.lor (empty_state c W) 2.

(* plus, is_over, minus; wants_listing, popped, may_take, let_go *)
Definition plus (old mask full : Z) : Z :=
  (if bool_decide (old = 0) then 4096 else 0) + (if bool_decide (Z.lor old mask = full) then 4294967296 else 0).
Definition overb (old mask full : Z) : bool := bool_decide (Z.land old mask = 0) && bool_decide (plus old mask full = 0).
Definition minus (old mask full : Z) : Z :=
  (if bool_decide (old = mask) then 4096 else 0) + (if bool_decide (old = full) then 4294967296 else 0).
Definition wants_listing (a : Z) : bool := unlb a && nzposb a.

Definition kTombstone : Z := 0.
Definition kDropped : Z := 1.
Definition kAdopted : Z := 2.
Definition popped (c W a : Z) : Z * Z :=
  if emptyb c W a then (a, kTombstone)
  else if heldb a then (Z.land a (Z.lnot 1024), kDropped)
  else if nzposb a then (Z.lor a 2, kAdopted)
  else (Z.lor a 1, kDropped).
Definition may_take (c W a : Z) : bool := negb (heldb a) && negb (unlb a) && nzposb a && negb (emptyb c W a).

Definition kNone : Z := 0.
Definition kEmpty : Z := 1.
Definition kTombstoneGiven : Z := 2.
Definition kList : Z := 3.
Definition let_go (c W a owed : Z) : Z * Z :=
  let n := a - owed - 2 - (if entb a then 1024 else 0) in
  if emptyb c W n then (n, if entb a then kTombstoneGiven else kEmpty)
  else if entb a then (n, kNone)
  else if nzposb n then (n, kList)
  else (Z.lor n 1, kNone).

Ltac zdm := Z.div_mod_to_equations; lia.

(* Setting a bit that is clear adds it; clearing one that is set subtracts it. *)
Lemma land_pow2 a n : 0 ≤ n → negb (bool_decide (Z.land a (2 ^ n) = 0)) = Z.testbit a n.
Proof.
  intros Hn. destruct (Z.testbit a n) eqn:Ht.
  - rewrite bool_decide_false; [done|]. intros H0.
    assert (Z.testbit (Z.land a (2 ^ n)) n = false) as H1 by (rewrite H0; apply Z.bits_0).
    rewrite Z.land_spec Ht Z.pow2_bits_true in H1; [done|lia].
  - rewrite bool_decide_true; [done|]. apply Z.bits_inj'. intros i Hi.
    rewrite Z.land_spec Z.bits_0 Z.pow2_bits_eqb; [|lia]. destruct (Z.eqb_spec n i) as [->|]; [by rewrite Ht|].
    by rewrite andb_false_r.
Qed.
Lemma lor_clear a m : bool_decide (Z.land a m = 0) = true → Z.lor a m = a + m.
Proof. intros H%bool_decide_eq_true. by rewrite Z.add_nocarry_lxor // Z.lxor_lor. Qed.
Lemma land_lnot_set a n : 0 ≤ n → negb (bool_decide (Z.land a (2 ^ n) = 0)) = true → Z.land a (Z.lnot (2 ^ n)) = a - 2 ^ n.
Proof.
  intros Hn Ht. rewrite land_pow2 // in Ht. rewrite -Z.ldiff_land. symmetry. apply Z.sub_nocarry_ldiff.
  apply Z.bits_inj'. intros i Hi. rewrite Z.ldiff_spec Z.bits_0 Z.pow2_bits_eqb; [|lia].
  destruct (Z.eqb_spec n i) as [<-|]; [by rewrite Ht|done].
Qed.
Lemma set_U a : unlb a = false → Z.lor a 1 = a + 1.
Proof. intros H%negb_false_iff. by apply lor_clear. Qed.
Lemma set_HELD a : heldb a = false → Z.lor a 2 = a + 2.
Proof. intros H%negb_false_iff. by apply lor_clear. Qed.
Lemma clear_U a : unlb a = true → Z.land a (Z.lnot 1) = a - 1.
Proof. intros H. by apply (land_lnot_set a 0). Qed.
Lemma clear_ENTRY a : entb a = true → Z.land a (Z.lnot 1024) = a - 1024.
Proof. intros H. by apply (land_lnot_set a 10). Qed.
Lemma set_HELD_ENTRY a : heldb a = false → entb a = false → Z.lor a 1026 = a + 1026.
Proof.
  intros H1%negb_false_iff%bool_decide_eq_true H2%negb_false_iff%bool_decide_eq_true. apply lor_clear, bool_decide_true.
  change 1026 with (Z.lor 2 1024). by rewrite Z.land_lor_distr_r H1 H2.
Qed.

Lemma b2z_inj a b : Z.b2z a = Z.b2z b → a = b.
Proof. destruct a, b; done. Qed.
Lemma b2z_01 b : 0 ≤ Z.b2z b ≤ 1.
Proof. destruct b; simpl; lia. Qed.

Section fields.
  Context (c : Z) (Hc : 0 ≤ c < 256).

  Lemma unlb_enc u h e nz fw : unlb (enc c u h e nz fw) = u.
  Proof using Type.
    unfold unlb. change 1 with (2 ^ 0). rewrite land_pow2; [|lia]. apply b2z_inj.
    rewrite Z.testbit_spec'; [|lia]. unfold enc. pose proof (b2z_01 u). zdm.
  Qed.
  Lemma heldb_enc u h e nz fw : heldb (enc c u h e nz fw) = h.
  Proof using Type.
    unfold heldb. change 2 with (2 ^ 1) at 1. rewrite land_pow2; [|lia]. apply b2z_inj.
    rewrite Z.testbit_spec'; [|lia]. unfold enc. change (2 ^ 1) with 2. pose proof (b2z_01 u). pose proof (b2z_01 h). zdm.
  Qed.
  Lemma entb_enc u h e nz fw : entb (enc c u h e nz fw) = e.
  Proof using Hc.
    unfold entb. change 1024 with (2 ^ 10) at 1. rewrite land_pow2; [|lia]. apply b2z_inj.
    rewrite Z.testbit_spec'; [|lia]. unfold enc. change (2 ^ 10) with 1024.
    pose proof (b2z_01 u). pose proof (b2z_01 h). pose proof (b2z_01 e). zdm.
  Qed.
  Lemma nz_field u h e nz fw : Z.land (Z.shiftr (enc c u h e nz fw) 12) 1048575 = (nz + 1048576 * fw) mod 1048576.
  Proof using Hc.
    change 1048575 with (Z.ones 20). rewrite Z.land_ones; [|lia].
    rewrite Z.shiftr_div_pow2; [|lia]. change (2 ^ 12) with 4096. change (2 ^ 20) with 1048576.
    assert (enc c u h e nz fw / 4096 = nz + 1048576 * fw) as ->; [|done].
    unfold enc. pose proof (b2z_01 u). pose proof (b2z_01 h). pose proof (b2z_01 e). zdm.
  Qed.
  Lemma nzposb_enc u h e nz fw : -524288 ≤ nz < 524288 → nzposb (enc c u h e nz fw) = bool_decide (0 < nz).
  Proof using Hc. intros Hb. unfold nzposb. rewrite nz_field. repeat case_bool_decide; simpl; try done; zdm. Qed.
  Lemma nz_of_enc u h e nz fw : -524288 ≤ nz < 524288 → nz_of (enc c u h e nz fw) = nz.
  Proof using Hc. intros Hb. unfold nz_of. rewrite nz_field. repeat case_bool_decide; zdm. Qed.
End fields.

Lemma nzposb_nz_of a : nzposb a = bool_decide (0 < nz_of a).
Proof.
  unfold nzposb, nz_of. assert (0 ≤ Z.land (Z.shiftr a 12) 1048575 < 1048576).
  { change 1048575 with (Z.ones 20). rewrite Z.land_ones; [|lia]. by apply Z.mod_pos_bound. }
  repeat case_bool_decide; simpl; try done; lia.
Qed.
Lemma land_state a : Z.land a 4503599627370494 = 2 * ((a / 2) mod 2251799813685248).
Proof.
  change 4503599627370494 with (Z.shiftl (Z.ones 51) 1). change 2251799813685248 with (2 ^ 51).
  rewrite -Z.land_ones; [|lia]. apply Z.bits_inj'. intros i Hi.
  rewrite Z.land_spec Z.shiftl_spec; [|lia].
  destruct (Z.eq_dec i 0) as [->|Hne].
  - rewrite Z.testbit_even_0. rewrite (Z.testbit_neg_r _ (0 - 1)); [|lia]. by rewrite andb_false_r.
  - replace i with (Z.succ (i - 1)) by lia. rewrite Z.testbit_even_succ; [|lia].
    rewrite Z.land_spec. replace (Z.succ (i - 1) - 1) with (i - 1); [|lia].
    rewrite -Z.div2_div Z.div2_spec Z.shiftr_spec; [|lia]. by replace (i - 1 + 1) with (Z.succ (i - 1)) by lia.
Qed.
Section empty.
  Context (c : Z) (Hc : 0 ≤ c < 256).
  Lemma emptyb_enc_held W u e nz fw : emptyb c W (enc c u true e nz fw) = false.
  Proof using Hc.
    unfold emptyb, empty_state. rewrite land_state. apply bool_decide_false. unfold enc. simpl (Z.b2z true).
    pose proof (b2z_01 u). intros H1. zdm.
  Qed.
  Lemma emptyb_enc_free W u nz fw :
    0 ≤ W < 262144 → -262144 ≤ nz ≤ W → -262144 ≤ fw ≤ W →
    emptyb c W (enc c u false false nz fw) = bool_decide (nz = W ∧ fw = W).
  Proof using Hc.
    intros HW H1 H2. unfold emptyb, empty_state. rewrite land_state. apply bool_decide_ext. unfold enc. simpl (Z.b2z false).
    pose proof (b2z_01 u). split; [intros H3|intros [-> ->]]; zdm.
  Qed.
  Lemma born_enc (W : nat) : born c W = enc c false true false W W.
  Proof using Hc.
    unfold born. rewrite set_HELD; [unfold empty_state, enc; simpl; lia|].
    rewrite (_ : empty_state c W = enc c false false false W W); [apply heldb_enc|unfold empty_state, enc; simpl; lia].
  Qed.
End empty.

(* A word of 64 bits and the integer behind it: the functions do not see the difference. *)
Lemma land_low a m n : 0 ≤ n → 0 ≤ m < 2 ^ n → Z.land (a mod 2 ^ n) m = Z.land a m.
Proof.
  intros Hn Hm. rewrite -Z.land_ones // -Z.land_assoc. f_equal. rewrite Z.land_comm Z.land_ones // Z.mod_small //.
Qed.
Section low_bits.
  Notation w a := (a mod 18446744073709551616).
  Lemma shift_low a k m : 0 ≤ k → 0 ≤ m → 0 ≤ Z.shiftl m k < 2 ^ 64 → Z.land (Z.shiftr (w a) k) m = Z.land (Z.shiftr a k) m.
  Proof.
    intros Hk Hm Hb. apply Z.bits_inj'. intros i Hi. rewrite !Z.land_spec !Z.shiftr_spec //.
    destruct (Z.testbit m i) eqn:Ht; [|by rewrite !andb_false_r].
    change 18446744073709551616 with (2 ^ 64). rewrite -Z.land_ones; [|lia]. rewrite Z.land_spec Z.testbit_ones; [|lia].
    assert (i + k < 64); [|by repeat (rewrite bool_decide_true; [|lia]); destruct (Z.testbit a (i + k)); simpl; try done;
      rewrite !andb_true_r; apply andb_true_iff; split; [apply Z.leb_le|apply Z.ltb_lt]; lia].
    destruct (Z.lt_ge_cases (i + k) 64) as [|Hge]; [done|]. exfalso.
    assert (Z.testbit (Z.shiftl m k) (i + k) = true) as H1 by (rewrite Z.shiftl_spec; [by replace (i + k - k) with i by lia|lia]).
    destruct (Z.eq_dec (Z.shiftl m k) 0) as [H0|H0]; [by rewrite H0 Z.bits_0 in H1|].
    rewrite Z.bits_above_log2 in H1; [done|lia|]. apply Z.log2_lt_pow2; [lia|].
    apply (Z.lt_le_trans _ (2 ^ 64)); [lia|]. apply Z.pow_le_mono_r; lia.
  Qed.
  Lemma unlb_low a : unlb (w a) = unlb a.
  Proof. unfold unlb. change 18446744073709551616 with (2 ^ 64). rewrite land_low //. Qed.
  Lemma heldb_low a : heldb (w a) = heldb a.
  Proof. unfold heldb. change 18446744073709551616 with (2 ^ 64). rewrite land_low //. Qed.
  Lemma entb_low a : entb (w a) = entb a.
  Proof. unfold entb. change 18446744073709551616 with (2 ^ 64). rewrite land_low //. Qed.
  Lemma nzposb_low a : nzposb (w a) = nzposb a.
  Proof. unfold nzposb. rewrite shift_low //. Qed.
  Lemma emptyb_low c W a : emptyb c W (w a) = emptyb c W a.
  Proof. unfold emptyb. change 18446744073709551616 with (2 ^ 64). rewrite land_low //. Qed.
End low_bits.
