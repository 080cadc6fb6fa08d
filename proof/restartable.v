(* SPDX-License-Identifier: MIT *)
(* restartable.v: a restartable section as a program, and its rule.

   Stands for  src/cache/rseq_sections.h: read the CPU's words as often as it takes, then one committing store
   The kernel aborts a section if
   anybody else ran on that CPU since it began; so nobody else committed there in between. Model: the CPU's state is an
   immutable value behind a pointer; an attempt reads it, computes the next, and commits by comparing pointers, which
   succeeds iff nobody committed since (pointers are fresh: no ABA). The model aborts less often than the kernel, which
   only adds retries; a killed thread is one that takes no more steps. *)
From iris.base_logic.lib Require Import invariants.
From iris.heap_lang Require Import proofmode notation.
From iris.prelude Require Import options.
Open Scope Z_scope.

(* `prefix` computes the new value from the old one. Words that the prefix writes before the commit are part of the value. *)
Definition rseq : val := rec: "rseq" "cpu" "prefix" :=
  let: "seen" := !"cpu" in
  let: "new" := "prefix" (!"seen") in
  if: CAS "cpu" "seen" (ref "new") then "new" else "rseq" "cpu" "prefix".

Section rseq.
  Context `{!heapGS Σ} (N : namespace).
  (* I v: what is true of the CPU's value v, and what the CPU owns for it. *)
  Definition cpu_inv (cpu : loc) (I : val → iProp Σ) : iProp Σ :=
    ∃ (p : loc) (v : val), cpu ↦ #p ∗ p ↦□ v ∗ I v.

  (* The rule: the prefix is run any number of times on values that once were the CPU's and needs no ownership; the commit
     is one step from I v to I w, in which P is exchanged for Q. P is not lost in attempts that fail. *)
  Lemma rseq_rule cpu I (prefix : val) (P : iProp Σ) (Q : val → iProp Σ) :
    (∀ v : val, {{{ True }}} prefix v {{{ w, RET w; I v ∗ P ={⊤ ∖ ↑N}=∗ I w ∗ Q w }}}) →
    {{{ inv N (cpu_inv cpu I) ∗ P }}} rseq #cpu prefix {{{ w, RET w; Q w }}}.
  Proof.
    iIntros (Hp Φ) "[#Hi HP] HΦ". iLöb as "IH". wp_lam. wp_pures.
    wp_bind (! _)%E. iInv "Hi" as (p v) "(Hc & #>Hv & HI)". wp_load. iModIntro.
    iSplitL "Hc HI"; [iNext; iExists p, v; by iFrame|]. wp_pures. wp_load. wp_apply Hp; [done|].
    iIntros (w) "Hstep". wp_pures. wp_alloc q as "Hq". iMod (mapsto_persist with "Hq") as "#Hq".
    wp_bind (CmpXchg _ _ _). iInv "Hi" as (p' v') "(Hc & #>Hv' & HI)".
    destruct (decide (p' = p)) as [->|Hne].
    - wp_cmpxchg_suc. iDestruct (mapsto_agree with "Hv Hv'") as %<-.
      iMod ("Hstep" with "[$HI $HP]") as "[HI HQ]". iModIntro.
      iSplitL "Hc HI"; [iNext; iExists q, w; by iFrame|]. wp_pures. by iApply "HΦ".
    - wp_cmpxchg_fail. iModIntro. iSplitL "Hc HI"; [iNext; iExists p', v'; by iFrame|]. wp_pures.
      iApply ("IH" with "HP HΦ").
  Qed.
End rseq.
