(* SPDX-License-Identifier: MIT *)
(* tagged_stack.v: push and pop of src/sync/tagged_stack.h with its layout, index:26 | tag.

   Nodes are named by index. Their links are readable by any thread for ever, even while the node is another's: half of each link's
   ownership lies in the invariant `links`, which all stacks with the same links share, half with the node's owner. The tag moves at
   every push and pop, so a pop that slept is not fooled.
   Integers    the tag does not wrap here (2^38 moves while one pop sleeps)
   Left out    take_all, each *)
From stdpp Require Import gmap.
From iris.base_logic.lib Require Import invariants mono_nat ghost_map.
From iris.heap_lang Require Import proofmode notation.
From iris.prelude Require Import options.
Open Scope Z_scope.

Definition B : Z := 67108864.   (* 2^26 *)

Definition push : val := rec: "push" "h" "l" "n" :=
  let: "head" := !"h" in
  ("l" +ₗ "n") <- "head" `rem` #B;;
  if: CAS "h" "head" ("head" - ("head" `rem` #B) + #B + "n") then #() else "push" "h" "l" "n".
Definition pop : val := rec: "pop" "h" "l" :=
  let: "head" := !"h" in
  let: "i" := "head" `rem` #B in
  if: "i" = #0 then #0
  else
    let: "below" := !("l" +ₗ "i") in
    if: CAS "h" "head" ("head" - "i" + #B + "below") then "i" else "pop" "h" "l".

Section tagged.
  Context `{!heapGS Σ, !mono_natG Σ, !ghost_mapG Σ nat (list Z)}.
  Context (N : namespace) (h l : loc) (K : nat) (γt γm : gname) (P : Z → iProp Σ).

  Definition top (xs : list Z) : Z := match xs with [] => 0 | x :: _ => x end.
  (* The node's owner has half of its link; the invariant has the other half of every node's, listed or not. *)
  Definition link (i : Z) : iProp Σ := ∃ v : Z, (l +ₗ i) ↦{#1/2} #v.
  Definition node (i : Z) : iProp Σ := ⌜0 < i ≤ K⌝ ∗ link i ∗ P i.
  Fixpoint chain (xs : list Z) : iProp Σ :=
    match xs with
    | [] => True
    | x :: r => ⌜0 < x ≤ K⌝ ∗ (l +ₗ x) ↦{#1/2} #(top r) ∗ P x ∗ chain r
    end.
  Definition links : iProp Σ := [∗ set] i ∈ (list_to_set (seqZ 1 K) : gset Z), ∃ v : Z, (l +ₗ i) ↦{#1/2} #v ∗ ⌜0 ≤ v ≤ K⌝.
  Definition stack_inv : iProp Σ := ∃ (t : nat) (xs : list Z) (m : gmap nat (list Z)),
    h ↦ #(top xs + B * t) ∗ chain xs ∗
    mono_nat_auth_own γt 1 t ∗ ghost_map_auth γm 1 m ∗ ⌜∀ k, (t < k)%nat → m !! k = None⌝ ∗ t ↪[γm]□ xs.
  Definition are_links : iProp Σ := inv (N .@ "links") links.
  Definition is_stack : iProp Σ := inv (N .@ "stack") stack_inv ∗ are_links.

  Global Instance chain_timeless `{!∀ i, Timeless (P i)} xs : Timeless (chain xs).
  Proof. induction xs; apply _. Qed.

  (* One link: its half, taken out and put back. *)
  Lemma links_acc i : 0 < i ≤ K → links -∗ ∃ v : Z, (l +ₗ i) ↦{#1/2} #v ∗ ⌜0 ≤ v ≤ K⌝ ∗
    (∀ v' : Z, ⌜0 ≤ v' ≤ K⌝ -∗ (l +ₗ i) ↦{#1/2} #v' -∗ links).
  Proof.
    iIntros (Hi) "H". iDestruct (big_sepS_elem_of_acc _ _ i with "H") as "[(%v & Hl & %Hv) Hc]".
    { apply elem_of_list_to_set, elem_of_seqZ. lia. }
    iExists v. iFrame. iSplit; [done|]. iIntros (v' Hv') "Hl". iApply "Hc". iExists v'. by iFrame.
  Qed.
  Lemma top_bound xs : chain xs -∗ ⌜0 ≤ top xs ≤ K⌝.
  Proof. destruct xs as [|x r]; simpl; [iIntros "_"; iPureIntro; lia|]. iIntros "(% & _)". iPureIntro; lia. Qed.

  (* The move t -> t+1 that makes the list xs'. *)
  Lemma move (t : nat) (m : gmap nat (list Z)) xs' :
    (∀ k, (t < k)%nat → m !! k = None) →
    mono_nat_auth_own γt 1 t -∗ ghost_map_auth γm 1 m ==∗
    mono_nat_auth_own γt 1 (S t) ∗ ∃ m', ghost_map_auth γm 1 m' ∗ ⌜∀ k, (S t < k)%nat → m' !! k = None⌝ ∗ S t ↪[γm]□ xs'.
  Proof.
    iIntros (Hm) "Ht Hg". iMod (mono_nat_own_update (S t) with "Ht") as "[$ _]"; [lia|].
    iMod (ghost_map_insert_persist (S t) xs' with "Hg") as "[Hg #Hs]"; [apply Hm; lia|]. iModIntro.
    iExists _. iFrame "Hg Hs". iPureIntro. intros k Hk. rewrite lookup_insert_ne; [apply Hm|]; lia.
  Qed.

  Context (HK : K < B) (HK0 : 0 ≤ K) `{!∀ i, Timeless (P i)}.

  Lemma rem_head (x t : Z) : 0 ≤ x ≤ K → 0 ≤ t → (x + B * t) `rem` B = x.
  Proof using All. intros Hx Ht. rewrite Z.rem_mod_nonneg; [|unfold B in *; lia..]. unfold B in *. Z.div_mod_to_equations. lia. Qed.
  Lemma head_inj (x t x' t' : Z) : 0 ≤ x ≤ K → 0 ≤ x' ≤ K → x + B * t = x' + B * t' → x = x' ∧ t = t'.
  Proof using All. unfold B in *. lia. Qed.

  Lemma push_spec (n : Z) : {{{ is_stack ∗ node n }}} push #h #l #n {{{ RET #(); True }}}.
  Proof using All.
    iIntros (Φ) "[#[I L] (%Hn & (%v & Hl) & HP)] HΦ". iLöb as "IH" forall (v). wp_lam. wp_pures.
    wp_bind (! _)%E. iInv "I" as (t xs m) ">(Hh & Hc & Ht & Hg & %Hm & #Hs)". wp_load.
    iDestruct (top_bound with "Hc") as %Hb. iModIntro. iSplitL "Hh Hc Ht Hg"; [iExists t, xs, m; by iFrame "∗#"|].
    wp_pures. rewrite rem_head; [|lia..].
    wp_bind (_ <- _)%E. iInv "L" as ">Hls".
    iDestruct (links_acc n with "Hls") as (v2) "(Hl2 & _ & Hls)"; [done|].
    iDestruct (mapsto_agree with "Hl Hl2") as %[= ->]. iCombine "Hl Hl2" as "Hl". wp_store. iDestruct "Hl" as "[Hl Hl2]".
    iModIntro. iSplitL "Hls Hl2". { iNext. by iApply ("Hls" with "[] Hl2"). }
    wp_pures. rewrite rem_head; [|lia..].
    wp_bind (CmpXchg _ _ _). iInv "I" as (t3 xs3 m3) ">(Hh & Hc & Ht & Hg & %Hm3 & #Hs3)".
    iDestruct (top_bound with "Hc") as %Hb3.
    destruct (decide (top xs3 + B * t3 = top xs + B * t)) as [Heq|Hne].
    - rewrite Heq. wp_cmpxchg_suc. apply head_inj in Heq as [Hx Htt]; [|done..]. assert (t3 = t) as -> by lia.
      iMod (move t m3 (n :: xs3) with "Ht Hg") as "(Ht & %m' & Hg & Hm' & Hs')"; [done|]. iModIntro. iSplitR "HΦ".
      + iNext. iExists (S t), (n :: xs3), m'. iFrame "Ht Hg Hm' Hs'". iSplitL "Hh".
        * by replace (top xs + B * t - top xs + B + n) with (top (n :: xs3) + B * S t) by (simpl; lia).
        * rewrite /= Hx. by iFrame.
      + wp_pures. by iApply "HΦ".
    - wp_cmpxchg_fail. iModIntro. iSplitL "Hh Hc Ht Hg"; [iExists t3, xs3, m3; by iFrame "∗#"|]. wp_pures.
      iApply ("IH" with "Hl HP HΦ").
  Qed.

  Lemma pop_spec : {{{ is_stack }}} pop #h #l {{{ (i : Z), RET #i; if decide (i = 0) then True else node i }}}.
  Proof using All.
    iIntros (Φ) "#[I L] HΦ". iLöb as "IH". wp_lam. wp_pures.
    wp_bind (! _)%E. iInv "I" as (t xs m) ">(Hh & Hc & Ht & Hg & %Hm & #Hs)". wp_load.
    iDestruct (top_bound with "Hc") as %Hb. iDestruct (mono_nat_lb_own_get with "Ht") as "#Hlb".
    iModIntro. iSplitL "Hh Hc Ht Hg"; [iExists t, xs, m; by iFrame "∗#"|].
    wp_pures. rewrite rem_head; [|lia..]. case_bool_decide as H0; wp_pures.
    { injection H0 as H0. iSpecialize ("HΦ" $! 0). by iApply "HΦ". }
    wp_bind (! _)%E. iInv "I" as (t2 xs2 m2) ">(Hh & Hc & Ht & Hg & %Hm2 & #Hs2)".
    iDestruct (mono_nat_lb_own_valid with "Ht Hlb") as %[_ Hle]. iDestruct (mono_nat_lb_own_get with "Ht") as "#Hlb2".
    destruct xs as [|x r]; [by simpl in H0|]. simpl in *.
    iInv "L" as ">Hls". iDestruct (links_acc x with "Hls") as (v) "(Hl & %Hv & Hls)"; [by assert (x ≠ 0) by naive_solver; lia|].
    iAssert ⌜t2 = t → v = top r⌝%I as %Hvr.
    { iIntros (->). iDestruct (ghost_map_elem_agree with "Hs Hs2") as %<-. simpl. iDestruct "Hc" as "(_ & Hl' & _)".
      by iDestruct (mapsto_agree with "Hl Hl'") as %[= ->]. }
    wp_load. iModIntro. iSplitL "Hls Hl". { iNext. by iApply ("Hls" with "[] Hl"). }
    iModIntro. iSplitL "Hh Hc Ht Hg"; [iExists t2, xs2, m2; by iFrame "∗#"|].
    wp_pures.
    wp_bind (CmpXchg _ _ _). iInv "I" as (t3 xs3 m3) ">(Hh & Hc & Ht & Hg & %Hm3 & #Hs3)".
    iDestruct (top_bound with "Hc") as %Hb3. iDestruct (mono_nat_lb_own_valid with "Ht Hlb2") as %[_ Hle2].
    destruct (decide (top xs3 + B * t3 = x + B * t)) as [Heq|Hne].
    - rewrite Heq. wp_cmpxchg_suc. apply head_inj in Heq as [Hx Htt]; [|done..]. assert (t3 = t) as -> by lia.
      iDestruct (ghost_map_elem_agree with "Hs Hs3") as %<-. rewrite Hvr; [|lia].
      iMod (move t m3 r with "Ht Hg") as "(Ht & %m' & Hg & Hm' & Hs')"; [done|].
      iDestruct "Hc" as "(%Hx1 & Hl & HP & Hc)". iModIntro. iSplitR "HΦ Hl HP".
      + iNext. iExists (S t), r, m'. iFrame "Ht Hg Hm' Hs' Hc".
        by replace (x + B * t - x + B + top r) with (top r + B * S t) by lia.
      + wp_pures. iApply "HΦ". rewrite decide_False; [|lia]. iModIntro. rewrite /node. iSplit; [done|]. iFrame. by iExists _.
    - wp_cmpxchg_fail. iModIntro. iSplitL "Hh Hc Ht Hg"; [iExists t3, xs3, m3; by iFrame "∗#"|]. wp_pures.
      by iApply "IH".
  Qed.
End tagged.
