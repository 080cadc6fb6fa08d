(* SPDX-License-Identifier: MIT *)
(* bits.v: machine words as finite sets of bits; fetch_or and fetch_and(~m), logically atomic.

   Stands for  the atomic operations on bitmap words (src/superblock/superblocks.h, set_bits and clear_bits). HeapLang has no
               fetch_or: it is a loop of CAS here. Each run with the instruction is a run in which that CAS succeeds at once *)
From stdpp Require Import gmap.
From iris.proofmode Require Import proofmode.
From iris.program_logic Require Export atomic.
From iris.heap_lang Require Import proofmode notation.
From iris.prelude Require Import options.

(* Bit i of w is set iff i is in F. *)
Definition repr (w : Z) (F : gset Z) : Prop := ∀ i, Z.testbit w i = bool_decide (i ∈ F).

Lemma repr_inj w w' F : repr w F → repr w' F → w = w'.
Proof. intros H1 H2. apply Z.bits_inj'. intros i _. by rewrite H1 H2. Qed.
Lemma repr_inj_set w F F' : repr w F → repr w F' → F = F'.
Proof. intros H1 H2. apply set_eq. intros i. specialize (H1 i). rewrite H2 in H1.
  symmetry in H1. by apply bool_decide_eq_bool_decide in H1 || (case_bool_decide; case_bool_decide; naive_solver). Qed.
Lemma repr_0 : repr 0 ∅.
Proof. intros i. by rewrite Z.bits_0. Qed.
Lemma repr_lor w m F M : repr w F → repr m M → repr (Z.lor w m) (F ∪ M).
Proof. intros H1 H2 i. rewrite Z.lor_spec H1 H2. by rewrite -bool_decide_or; apply bool_decide_ext; set_solver. Qed.
Lemma repr_land w m F M : repr w F → repr m M → repr (Z.land w m) (F ∩ M).
Proof. intros H1 H2 i. rewrite Z.land_spec H1 H2. by rewrite -bool_decide_and; apply bool_decide_ext; set_solver. Qed.
Lemma repr_diff w m F M : repr w F → repr m M → repr (Z.land w (Z.lnot m)) (F ∖ M).
Proof. intros H1 H2 i. rewrite -Z.ldiff_land Z.ldiff_spec H1 H2.
  rewrite -bool_decide_not -bool_decide_and; apply bool_decide_ext; set_solver. Qed.
Lemma repr_eq w w' F F' : repr w F → repr w' F' → (w = w' ↔ F = F').
Proof. intros H1 H2; split; [intros ->; by eapply repr_inj_set|intros ->; by eapply repr_inj]. Qed.
Lemma repr_eq_0 w F : repr w F → (w = 0%Z ↔ F = ∅).
Proof. intros H. apply repr_eq; [done|apply repr_0]. Qed.

Definition fetch_or : val := rec: "fetch_or" "l" "m" :=
  let: "o" := !"l" in
  if: CAS "l" "o" (BinOp OrOp "o" "m") then "o" else "fetch_or" "l" "m".
Definition fetch_and_not : val := rec: "fetch_and_not" "l" "m" :=
  let: "o" := !"l" in
  if: CAS "l" "o" (BinOp AndOp "o" (~ "m")) then "o" else "fetch_and_not" "l" "m".

Section rmw.
  Context `{!heapGS Σ}.
  Lemma fetch_or_spec (l : loc) (m : Z) :
    ⊢ <<< ∀∀ (o : Z), l ↦ #o >>> fetch_or #l #m @ ∅ <<< l ↦ #(Z.lor o m), RET #o >>>.
  Proof.
    iIntros (Φ) "AU". iLöb as "IH". wp_lam. wp_pures.
    wp_bind (!_)%E. iMod "AU" as (v) "[Hl [Hclose _]]".
    wp_load. iMod ("Hclose" with "Hl") as "AU". iModIntro.
    wp_pures. wp_bind (CmpXchg _ _ _)%E. iMod "AU" as (w) "[Hl Hclose]".
    destruct (decide (#v = #w)) as [[= ->]|Hx].
    - wp_cmpxchg_suc. iDestruct "Hclose" as "[_ Hclose]". iMod ("Hclose" with "Hl") as "HΦ".
      iModIntro. wp_pures. done.
    - wp_cmpxchg_fail. iDestruct "Hclose" as "[Hclose _]". iMod ("Hclose" with "Hl") as "AU".
      iModIntro. wp_pures. iApply "IH". done.
  Qed.
  Lemma fetch_and_not_spec (l : loc) (m : Z) :
    ⊢ <<< ∀∀ (o : Z), l ↦ #o >>> fetch_and_not #l #m @ ∅ <<< l ↦ #(Z.land o (Z.lnot m)), RET #o >>>.
  Proof.
    iIntros (Φ) "AU". iLöb as "IH". wp_lam. wp_pures.
    wp_bind (!_)%E. iMod "AU" as (v) "[Hl [Hclose _]]".
    wp_load. iMod ("Hclose" with "Hl") as "AU". iModIntro.
    wp_pures. wp_bind (CmpXchg _ _ _)%E. iMod "AU" as (w) "[Hl Hclose]".
    destruct (decide (#v = #w)) as [[= ->]|Hx].
    - wp_cmpxchg_suc. iDestruct "Hclose" as "[_ Hclose]". iMod ("Hclose" with "Hl") as "HΦ".
      iModIntro. wp_pures. done.
    - wp_cmpxchg_fail. iDestruct "Hclose" as "[Hclose _]". iMod ("Hclose" with "Hl") as "AU".
      iModIntro. wp_pures. iApply "IH". done.
  Qed.
End rmw.
