(* SPDX-License-Identifier: MIT *)
(* superblock_init.v: the invariant can be had, so what superblock.v proves is not empty: from plain memory come a descriptor with
   nothing in it, its T tickets, and the right to give it a life. *)
From iris.algebra Require Import gset auth excl numbers.
From iris.base_logic.lib Require Import ghost_var invariants.
From freeway Require Import bits anchor superblock_state superblock.
From iris.heap_lang Require Import proofmode notation.
From iris.prelude Require Import options.
Set Default Proof Using "All".
Open Scope Z_scope.

Section init.
  Context `{!heapGS Σ, !sbG Σ}.
  Context (c : Z) (W T : nat) (Ones Last : gset Z) (ones last : Z) (s : sb) (N : namespace).
  Context (mem : nat → Z → iProp Σ) (link : iProp Σ).
  Context (HOnes : Ones ≠ ∅) (HLast : Last ≠ ∅) (Hones : repr ones Ones) (Hlast : repr last Last).
  Notation Full := (superblock.Full W Ones Last).
  Notation full := (superblock.full W ones last).
  Notation all_full := (superblock_state.all_full W Full).


  Fixpoint all_toks (n : nat) : gset (nat * Z) :=
    match n with O => ∅ | S k => all_toks k ∪ set_map (λ i, (k, i)) (Full k) end.
  Lemma all_toks_lt n j i : (j, i) ∈ all_toks n → (j < n)%nat.
  Proof. induction n as [|k IH]; simpl; [set_solver|]. intros [H%IH|H]%elem_of_union; [lia|].
  apply elem_of_map in H as (? & [= -> ->] & _). lia. Qed.
  Lemma toks_word γ k (X : gset Z) :
    own γ (GSet (set_map (λ i, (k, i)) X : gset (nat * Z))) -∗ [∗ set] i ∈ X, own γ (GSet {[(k, i)]}).
  Proof.
    induction X as [|i X Hi IH] using set_ind_L; [rewrite big_sepS_empty; auto|].
    rewrite set_map_union_L set_map_singleton_L big_sepS_insert // -gset_disj_union; [|set_solver].
    iIntros "[$ H]". by iApply IH.
  Qed.
  Lemma toks_split γ n :
    own γ (GSet (all_toks n)) -∗ [∗ list] j ↦ F ∈ (Full <$> seq 0 n), [∗ set] i ∈ F, own γ (GSet {[(j, i)]}).
  Proof.
    induction n as [|k IH]; [simpl; auto|]. rewrite seq_S fmap_app big_sepL_app /= fmap_length seq_length Nat.add_0_r right_id.
    rewrite -gset_disj_union; [|].
    - iIntros "[H1 H2]". iSplitL "H1"; [by iApply IH|by iApply toks_word].
    - intros [j i] H1%all_toks_lt H2. apply elem_of_map in H2 as (? & [= -> ->] & _). lia.
  Qed.
  Lemma tickets_split γ m n :
    own γ (◯ (n, n) : authR (prodUR natUR natUR)) -∗ [∗ list] _ ∈ seq m n, own γ (◯ (1%nat, 1%nat) : authR (prodUR natUR natUR)).
  Proof.
    revert m. induction n as [|n IH]; intros m; simpl; [auto|].
    rewrite (_ : (◯ (S n, S n) : authR (prodUR natUR natUR)) = ◯ (1%nat, 1%nat) ⋅ ◯ (n, n)); [|by rewrite -auth_frag_op].
    rewrite own_op. iIntros "[$ H]". by iApply IH.
  Qed.

  Lemma sb_init E :
    s.(s_anchor) ↦ #(empty_state c W) -∗ s.(s_owed) ↦ #0 -∗
    ([∗ list] j ∈ seq 0 W, (s.(s_words) +ₗ Z.of_nat j) ↦ #(full j)) ={E}=∗
    ∃ g, sb_inv c W T Ones Last g s N mem link ∗ idle g s ∗ [∗ list] _ ∈ seq 0 T, ticket g.
  Proof.
    iIntros "Ha Hz Hw".
    iMod (own_alloc (GSet (all_toks W))) as (g1) "H1"; [done|].
    iMod (own_alloc (Excl ())) as (g2) "H2"; [done|].
    iMod (own_alloc (● (0%nat, 0%nat) : authR (prodUR natUR natUR))) as (g3) "H3"; [by apply auth_auth_valid|].
    iMod (own_alloc (● (T, T) ⋅ ◯ (T, T) : authR (prodUR natUR natUR))) as (g4) "[H4 H5]"; [by apply auth_both_valid_discrete|].
    iMod (ghost_var_alloc (None : option (Z * Z))) as (g5) "[H6 H7]".
    set (g := {| g_tok := g1; g_entry := g2; g_pend := g3; g_tick := g4; g_owed := g5 |}). iExists g.
    iEval (rewrite (_ : (◯ (T, T) : authR (prodUR natUR natUR)) = ◯ (0%nat, 0%nat) ⋅ ◯ (T, T));
    [|by rewrite -auth_frag_op]) in "H5".
    rewrite own_op.
    iDestruct "H5" as "[H5 H8]". iDestruct (tickets_split with "H8") as "$". iDestruct (toks_split with "H1") as "H1".
    rewrite /idle /=. iFrame "H7". iSplitR "Hz"; [|by iExists 0].
    iApply inv_alloc. iNext. iExists _. iFrame "Ha".
    iExists false, false, false, W, W. iExists 0, 0, 0%nat, 0%nat, all_full.
    rewrite /isE bool_decide_true //=. iFrame "H3 H4 H5 H6". iSplit; [|iSplitR "H2"].
    - iPureIntro. assert (length all_full = W) as Hlen by (by rewrite /superblock_state.all_full fmap_length seq_length).
      assert (∀ j F, all_full !! j = Some F → F = Full j) as Hall.
      { intros j F. rewrite /superblock_state.all_full list_lookup_fmap. destruct (decide (j < W)%nat).
        - rewrite lookup_seq_lt //=. naive_solver.
        - rewrite lookup_seq_ge; [done|lia]. }
      split_and!; try done.
      + rewrite /enc /empty_state /=. lia.
      + rewrite cnt_all; [rewrite Hlen; lia|]. intros j F ->%Hall. apply bool_decide_true. rewrite /superblock.Full. by case_decide.
      + rewrite cnt_all; [rewrite Hlen; lia|]. intros j F ->%Hall. by apply bool_decide_true.
    - iAssert ([∗ list] j ↦ F ∈ all_full, (s_words s +ₗ j) ↦ #(full j))%I with "[Hw]" as "Hw".
      { rewrite /superblock_state.all_full big_sepL_fmap. iApply (big_sepL_mono with "Hw").
        iIntros (k j [-> _]%lookup_seq) "H". done. }
      iCombine "Hw H1" as "H". rewrite -big_sepL_sep. iApply (big_sepL_mono with "H").
      iIntros (j F Hj) "[Hl Ht]". rewrite /superblock_state.all_full list_lookup_fmap in Hj.
      destruct (seq 0 W !! j) as [k|] eqn:Hk; [|done]. apply lookup_seq in Hk as [-> _]. injection Hj as <-.
      iExists (full j). iFrame "Hl". iSplit; [iPureIntro; split; [|done]; rewrite /superblock.full /superblock.Full;
      by case_decide|].
      rewrite /bits_res. iApply (big_sepS_mono with "Ht"). by iIntros (i _) "$".
    - by iRight.
  Qed.
End init.
