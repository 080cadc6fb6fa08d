(* SPDX-License-Identifier: MIT *)
(* pages.v: a chunk's word as the provider of frames, and so of spans.

   Stands for  src/pages/chunk_word.h's moves as src/pages/frames.h makes them: claim takes all frames of a run by one CAS, or none;
               give clears their bits. A frame is in one pair of hands, or free
   Left out    which run (chunk_word.v: find_run_spec), dirty frames, chunks side by side, the map of pages *)
From stdpp Require Import gmap.
From iris.base_logic.lib Require Import invariants.
From freeway Require Import bits.
From iris.heap_lang Require Import proofmode notation.
From iris.prelude Require Import options.
Open Scope Z_scope.

Definition claim_frames : val := rec: "claim" "word" "mask" :=
  let: "used" := !"word" in
  if: BinOp AndOp "used" "mask" = #0 then
    if: CAS "word" "used" (BinOp OrOp "used" "mask") then #true else "claim" "word" "mask"
  else #false.
Definition give_frames : val := λ: "word" "mask", fetch_and_not "word" "mask".

Section pages.
  Context `{!heapGS Σ} (N : namespace) (word : loc) (Every : gset Z).
  Context (frame : Z → iProp Σ) `{!∀ i, Timeless (frame i)} (frame_exclusive : ∀ i, frame i -∗ frame i -∗ False).

  Definition frames (M : gset Z) : iProp Σ := [∗ set] i ∈ M, frame i.
  Definition pages_inv : iProp Σ := ∃ (w : Z) (U : gset Z), word ↦ #w ∗ ⌜repr w U⌝ ∗ frames (Every ∖ U).
  Definition is_pages : iProp Σ := inv N pages_inv.

  Lemma claim_frames_spec (m : Z) (M : gset Z) :
    repr m M → M ⊆ Every →
    {{{ is_pages }}} claim_frames #word #m {{{ (b : bool), RET #b; if b then frames M else True }}}.
  Proof using Type*.
    iIntros (Hm HM Φ) "#I HΦ". iLöb as "IH". wp_lam. wp_pures.
    wp_bind (! _)%E. iInv "I" as (w U) ">(Hw & %Hr & HF)". wp_load. iModIntro.
    iSplitL "Hw HF"; [iExists w, U; by iFrame|]. wp_pures. case_bool_decide as H0; wp_pures; [|by iApply ("HΦ" $! false)].
    wp_bind (CmpXchg _ _ _). iInv "I" as (w' U') ">(Hw & %Hr' & HF)". destruct (decide (w' = w)) as [->|Hne].
    - wp_cmpxchg_suc. injection H0 as H0. apply (repr_eq_0 _ _ (repr_land _ _ _ _ Hr' Hm)) in H0.
      assert (Every ∖ U' = (Every ∖ (U' ∪ M)) ∪ M) as ->.
      { apply set_eq. intros i. destruct (decide (i ∈ M)); set_solver. }
      rewrite /frames big_sepS_union; [|set_solver]. iDestruct "HF" as "[HF HM]". iModIntro. iSplitL "Hw HF".
      { iNext. iExists _, (U' ∪ M). iFrame. iPureIntro. by apply repr_lor. }
      wp_pures. iApply ("HΦ" $! true). by iFrame.
    - wp_cmpxchg_fail. iModIntro. iSplitL "Hw HF"; [iExists w', U'; by iFrame|]. wp_pures. by iApply "IH".
  Qed.
  Lemma give_frames_spec (m : Z) (M : gset Z) :
    repr m M → M ⊆ Every →
    {{{ is_pages ∗ frames M }}} give_frames #word #m {{{ (w : Z), RET #w; True }}}.
  Proof using Type* frame_exclusive.
    iIntros (Hm HM Φ) "[#I HM] HΦ". wp_lam. wp_pures.
    awp_apply fetch_and_not_spec without "HΦ". iInv "I" as (w U) ">(Hw & %Hr & HF)".
    iAaccIntro with "Hw". { iIntros "Hw !>". iFrame "HM". iExists w, U. by iFrame. }
    iIntros "Hw". iAssert (⌜M ⊆ U⌝)%I as %HU.
    { rewrite elem_of_subseteq. iIntros (i Hi). destruct (decide (i ∈ U)) as [|Hn]; [done|].
      iDestruct (big_sepS_elem_of _ _ i with "HM") as "H1"; [done|].
      iDestruct (big_sepS_elem_of _ _ i with "HF") as "H2"; [set_solver|]. iDestruct (frame_exclusive with "H1 H2") as %[]. }
    iModIntro. iSplitL "Hw HF HM".
    { iNext. iExists _, (U ∖ M). iFrame "Hw". iSplit; [iPureIntro; by apply repr_diff|].
      assert (Every ∖ (U ∖ M) = (Every ∖ U) ∪ M) as ->.
      { apply set_eq. intros i. destruct (decide (i ∈ M)); set_solver. }
      rewrite /frames big_sepS_union; [iFrame|set_solver]. }
    iIntros "HΦ". by iApply "HΦ".
  Qed.
End pages.
