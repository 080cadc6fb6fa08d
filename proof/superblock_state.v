(* SPDX-License-Identifier: MIT *)
(* superblock_state.v: the invariant R of one superblock (its anchor is a), and one lemma for each atomic step.

   Stands for  src/superblock/anchor.h's states and facts I1 to I4. No programs: a lemma says what a step on the anchor or
               on a word does to the ownership of blocks, span, entry and descriptor
   Words       the shapes may differ: Full j is the set of word j's blocks (SizeClass::full_mask)
   Resources   blocks j M: the blocks M of word j, in one pair of hands.   span: the memory of all of them
               entry: the right to have it in a list.   control: the descriptor of a superblock that is not alive
               ticket: a freer may be at work; T exist, so that the counts do not leave their fields
               link: whatever travels with entry and control (tagged_stack.v: the descriptor's link) *)
From iris.algebra Require Import gset auth excl numbers.
From iris.base_logic.lib Require Import ghost_var.
From freeway Require Import bits anchor.
From freeway Require Export counts.
From iris.heap_lang Require Import proofmode notation.
From iris.prelude Require Import options.
Set Default Proof Using "All".
Open Scope Z_scope.

Class sbG Σ := {
  sb_tok :> inG Σ (gset_disjR (nat * Z));
  sb_excl :> inG Σ (exclR unitO);
  sb_count :> inG Σ (authR (prodUR natUR natUR));
  sb_owed :> ghost_varG Σ (option (Z * Z)) }.

Record names := { g_tok : gname; g_entry : gname; g_pend : gname; g_tick : gname; g_owed : gname }.
Record sb := { s_anchor : loc; s_words : loc; s_owed : loc }.

Section ghost.
  Context `{!heapGS Σ, !sbG Σ}.
  Context (c : Z) (W T : nat) (Full : nat → gset Z) (g : names) (s : sb).
  Context (mem : nat → Z → iProp Σ) `{!∀ j i, Timeless (mem j i)}.
  Context (HW : (0 < W)%nat) (HWT : Z.of_nat W < 262144) (HT : Z.of_nat T < 262144) (Hc : 0 ≤ c < 256).
  Context (HFull : ∀ j, Full j ≠ ∅) (link : iProp Σ) `{!Timeless link}.

  Definition all_full : list (gset Z) := Full <$> seq 0 W.
  Lemma all_full_lookup j F : all_full !! j = Some F ↔ F = Full j ∧ (j < W)%nat.
  Proof.
    rewrite /all_full list_lookup_fmap. destruct (decide (j < W)%nat) as [Hj|Hj].
    - rewrite lookup_seq_lt //=. naive_solver.
    - rewrite lookup_seq_ge; [|lia]. naive_solver.
  Qed.
  Lemma all_full_length : length all_full = W.
  Proof. by rewrite /all_full fmap_length seq_length. Qed.

  (* Who owns what. *)
  Definition tok (j : nat) (i : Z) : iProp Σ := own g.(g_tok) (GSet {[(j, i)]}).
  Definition bits_res (alive : bool) (j : nat) (F : gset Z) : iProp Σ :=
    [∗ set] i ∈ F, tok j i ∗ (if alive then mem j i else True)%I.
  Definition blocks (j : nat) (F : gset Z) : iProp Σ := bits_res true j F.
  Definition span : iProp Σ := [∗ list] j ↦ F ∈ all_full, [∗ set] i ∈ F, mem j i.
  Definition entry_right : iProp Σ := own g.(g_entry) (Excl ()).
  Definition entry : iProp Σ := entry_right ∗ link.
  Definition holds (xn xf : Z) : iProp Σ := ghost_var g.(g_owed) (1/2) (Some (xn, xf)).
  Definition idle : iProp Σ := ghost_var g.(g_owed) (1/2) None ∗ ∃ z : Z, s.(s_owed) ↦ #z.
  Definition control : iProp Σ := idle ∗ link.
  Definition ticket : iProp Σ := own g.(g_tick) (◯ (1%nat, 1%nat)).
  Definition working (bn bf : bool) : iProp Σ :=                     (* a freer between its word and the anchor *)
    own g.(g_pend) (◯ (Nat.b2n bn, Nat.b2n bf)) ∗ own g.(g_tick) (◯ (Nat.b2n (negb bn), Nat.b2n (negb bf))).

  Definition word (alive : bool) (j : nat) (F : gset Z) : iProp Σ :=
    ∃ w : Z, (s.(s_words) +ₗ j) ↦ #w ∗ ⌜repr w F ∧ F ⊆ Full j⌝ ∗ bits_res alive j F.
  Definition words (alive : bool) (Fs : list (gset Z)) : iProp Σ := [∗ list] j ↦ F ∈ Fs, word alive j F.

  Notation f_nz := (λ _ : nat, nzb).
  Notation f_fw := (λ j : nat, fwb (Full j)).
  Definition isE (h : bool) (nz fw : Z) : bool := bool_decide (h = false ∧ nz = W ∧ fw = W).

  (* Where the entry and the holder's right are. *)
  Definition ctl (u h e E : bool) : iProp Σ :=
    (if h then (if e then True else entry)
     else if u then entry ∗ idle
     else if E then idle ∨ entry_right
     else idle)%I.

  Definition facts (a : Z) u h e nz fw xn xf (Pn Pf : nat) (Fs : list (gset Z)) : Prop :=
    a = enc c u h e nz fw ∧ length Fs = W ∧
    nz = cnt f_nz 0 Fs - Pn + xn ∧ fw = cnt f_fw 0 Fs - Pf + xf ∧    (* I3 *)
    (h = false → e = false ∧ xn = 0 ∧ xf = 0) ∧ (u = true → h = false).

  Definition counts (Pn Pf : nat) : iProp Σ :=
    own g.(g_pend) (● (Pn, Pf)) ∗ own g.(g_tick) (● (T, T)) ∗ own g.(g_tick) (◯ (Pn, Pf)).

  Definition R (a : Z) : iProp Σ := ∃ (u h e : bool) (nz fw xn xf : Z) (Pn Pf : nat) (Fs : list (gset Z)),
    ⌜facts a u h e nz fw xn xf Pn Pf Fs⌝ ∗ words (negb (isE h nz fw)) Fs ∗ counts Pn Pf ∗
    ghost_var g.(g_owed) (1/2) (if h then Some (xn, xf) else None) ∗ ctl u h e (isE h nz fw).

  Global Instance bits_res_timeless b j F : Timeless (bits_res b j F).
  Proof. destruct b; apply _. Qed.
  Global Instance ctl_timeless u h e E : Timeless (ctl u h e E).
  Proof. destruct u, h, e, E; apply _. Qed.
  Global Instance R_timeless a : Timeless (R a).
  Proof. apply _. Qed.

  (* Tokens and counters ------------------------------------------------------------------------------------------- *)

  Lemma bits_res_disjoint b1 b2 j X Y : bits_res b1 j X -∗ bits_res b2 j Y -∗ ⌜X ## Y⌝.
  Proof.
    rewrite elem_of_disjoint. iIntros "HX HY" (i Hx Hy).
    iDestruct (big_sepS_elem_of _ _ i with "HX") as "[H1 _]"; [done|].
    iDestruct (big_sepS_elem_of _ _ i with "HY") as "[H2 _]"; [done|].
    iCombine "H1 H2" as "H". iDestruct (own_valid with "H") as %Hv. apply gset_disj_valid_op in Hv. set_solver.
  Qed.
  (* No block is in two hands. *)
  Lemma blocks_exclusive j i : blocks j {[i]} -∗ blocks j {[i]} -∗ False.
  Proof. iIntros "H1 H2". iDestruct (bits_res_disjoint true true with "H1 H2") as %Hd. set_solver. Qed.
  Lemma entry_exclusive : entry_right -∗ entry_right -∗ False.
  Proof. iIntros "H1 H2". iCombine "H1 H2" as "H". by iDestruct (own_valid with "H") as %[]. Qed.
  Lemma bits_res_split j F : bits_res true j F ⊣⊢ bits_res false j F ∗ [∗ set] i ∈ F, mem j i.
  Proof. rewrite /bits_res !big_sepS_sep. iSplit; [iIntros "[$ $]"; by iApply big_sepS_intro; auto|iIntros "[[$ _] $]"]. Qed.
  Lemma words_split Fs : words true Fs ⊣⊢ words false Fs ∗ [∗ list] j ↦ F ∈ Fs, [∗ set] i ∈ F, mem j i.
  Proof.
    rewrite /words -big_sepL_sep. apply big_sepL_proper. intros j F _. rewrite /word. iSplit.
    - iIntros "(%w & ? & ? & H)". rewrite bits_res_split. iDestruct "H" as "[H $]". iExists w. iFrame.
    - iIntros "[(%w & ? & ? & H) Hm]". iExists w. rewrite (bits_res_split j F). iFrame.
  Qed.

  Lemma counts_bound Pn Pf : counts Pn Pf -∗ ⌜(Pn ≤ T)%nat ∧ (Pf ≤ T)%nat⌝.
  Proof.
    iIntros "(_ & H1 & H2)". iCombine "H1 H2" as "H". iDestruct (own_valid with "H") as %Hv.
    apply auth_both_valid_discrete in Hv as [Hi _]. apply prod_included in Hi as [H1 H2]; simpl in *.
    iPureIntro. by rewrite -!nat_included.
  Qed.
  Lemma counts_add (bn bf : bool) Pn Pf :
    counts Pn Pf -∗ ticket ==∗ counts (Pn + Nat.b2n bn) (Pf + Nat.b2n bf) ∗ working bn bf.
  Proof.
    iIntros "(H1 & $ & H2) Ht". iCombine "H2 Ht" as "H".
    assert ((Pn, Pf) ⋅ (1%nat, 1%nat) ≡ ((Pn + Nat.b2n bn)%nat, (Pf + Nat.b2n bf)%nat) ⋅ (Nat.b2n (negb bn), Nat.b2n (negb bf))) as ->.
    { rewrite -!pair_op !nat_op. by destruct bn, bf; simpl; split; simpl; fold_leibniz; lia. }
    rewrite auth_frag_op own_op. iDestruct "H" as "[$ $]".
    iMod (own_update with "H1") as "[$ $]"; [|done].
    apply auth_update_alloc. apply prod_local_update'; simpl; apply nat_local_update; rewrite /ε /nat_unit_instance; lia.
  Qed.
  Lemma counts_sub (bn bf : bool) Pn Pf :
    counts Pn Pf -∗ working bn bf ==∗ ∃ Pn' Pf' : nat,
      ⌜(Pn = Pn' + Nat.b2n bn)%nat ∧ (Pf = Pf' + Nat.b2n bf)%nat⌝ ∗ counts Pn' Pf' ∗ ticket.
  Proof.
    iIntros "(H1 & H2 & H3) [H4 H5]".
    iDestruct (own_valid_2 with "H1 H4") as %[Hi _]%auth_both_valid_discrete.
    apply prod_included in Hi as [Hn Hf]; simpl in *. apply nat_included in Hn, Hf.
    iExists (Pn - Nat.b2n bn)%nat, (Pf - Nat.b2n bf)%nat.
    iMod (own_update_2 with "H1 H4") as "H1".
    { apply (auth_update_dealloc _ _ ((Pn - Nat.b2n bn)%nat, (Pf - Nat.b2n bf)%nat)).
      apply (prod_local_update' (A:=natUR) (B:=natUR)); apply nat_local_update; rewrite /ε /= /nat_unit_instance; lia. }
    iCombine "H3 H5" as "H".
    assert ((Pn, Pf) ⋅ (Nat.b2n (negb bn), Nat.b2n (negb bf)) ≡
            ((Pn - Nat.b2n bn)%nat, (Pf - Nat.b2n bf)%nat) ⋅ (1%nat, 1%nat)) as ->.
    { rewrite -!pair_op !nat_op. by destruct bn, bf; simpl in *; split; simpl; fold_leibniz; lia. }
    rewrite auth_frag_op own_op. iDestruct "H" as "[$ $]". iFrame. iPureIntro. lia.
  Qed.

  (* What the counts tell ------------------------------------------------------------------------------------------ *)

  Lemma facts_bounds a u h e nz fw xn xf (Pn Pf : nat) Fs :
    facts a u h e nz fw xn xf Pn Pf Fs → (Pn ≤ T)%nat ∧ (Pf ≤ T)%nat →
    (-262144 ≤ nz - xn ≤ W) ∧ (-262144 ≤ fw - xf ≤ W).
  Proof. intros (-> & Hl & -> & -> & _ & _) [? ?]. pose proof (cnt_bound f_nz 0 Fs). pose proof (cnt_bound f_fw 0 Fs). lia. Qed.
  (* EMPTY by the counts: nobody is at work, and every word is full. *)
  Lemma facts_empty a u h e nz fw xn xf (Pn Pf : nat) Fs :
    facts a u h e nz fw xn xf Pn Pf Fs → nz - xn = W → fw - xf = W → Pn = 0%nat ∧ Pf = 0%nat ∧ Fs = all_full.
  Proof.
    intros (-> & Hl & -> & -> & _ & _) H1 H2. pose proof (cnt_bound f_nz 0 Fs). pose proof (cnt_bound f_fw 0 Fs).
    assert (cnt f_fw 0 Fs = Z.of_nat (length Fs)) as Hcf by lia. split_and!; [lia..|].
    apply list_eq. intros j. destruct (Fs !! j) as [F|] eqn:HF.
    - pose proof (cnt_full _ _ _ Hcf j F HF) as Hf. apply bool_decide_eq_true in Hf. simpl in Hf. symmetry.
      apply all_full_lookup. split; [done|]. apply lookup_lt_Some in HF. lia.
    - symmetry. apply lookup_ge_None. rewrite all_full_length. apply lookup_ge_None in HF. lia.
  Qed.
  Lemma facts_emptyb a u e nz fw xn xf (Pn Pf : nat) Fs :
    facts a u false e nz fw xn xf Pn Pf Fs → (Pn ≤ T)%nat ∧ (Pf ≤ T)%nat → emptyb c W a = isE false nz fw.
  Proof.
    intros Hf HP. pose proof (facts_bounds _ _ _ _ _ _ _ _ _ _ _ Hf HP) as [H1 H2].
    destruct Hf as (-> & _ & _ & _ & Hh & _). destruct (Hh eq_refl) as (-> & -> & ->).
    rewrite emptyb_enc_free; [|lia..]. rewrite /isE. apply bool_decide_ext. naive_solver.
  Qed.
  Lemma facts_nzposb a u e nz fw xn xf (Pn Pf : nat) Fs :
    facts a u false e nz fw xn xf Pn Pf Fs → (Pn ≤ T)%nat ∧ (Pf ≤ T)%nat → nzposb a = bool_decide (0 < nz).
  Proof.
    intros Hf HP. pose proof (facts_bounds _ _ _ _ _ _ _ _ _ _ _ Hf HP) as [H1 H2].
    destruct Hf as (-> & _ & _ & _ & Hh & _). destruct (Hh eq_refl) as (-> & -> & ->). apply nzposb_enc; [done|lia].
  Qed.

  (* The steps ----------------------------------------------------------------------------------------------------- *)

  Definition change (bn bf : bool) : Z := 4096 * Z.b2z bn + 4294967296 * Z.b2z bf.
  Definition held : iProp Σ := ∃ z : Z, s.(s_owed) ↦ #z.

  Lemma Fs_lookup (Fs : list (gset Z)) j : length Fs = W → (j < W)%nat → ∃ F, Fs !! j = Some F.
  Proof. intros ??. apply lookup_lt_is_Some. lia. Qed.
  Lemma idle_exclusive : idle -∗ held -∗ False.
  Proof. iIntros "[_ (%z & H1)] (%z' & H2)". by iDestruct (mapsto_ne with "H1 H2") as %?. Qed.

  (* A freer's fetch_or. *)
  Lemma R_free a j m M :
    (j < W)%nat → repr m M → M ≠ ∅ → M ⊆ Full j →
    R a -∗ blocks j M -∗ ticket -∗ ∃ (o : Z) (F : gset Z), (s.(s_words) +ₗ j) ↦ #o ∗ ⌜repr o F ∧ F ## M⌝ ∗
      (((s.(s_words) +ₗ j) ↦ #o -∗ R a ∗ blocks j M ∗ ticket) ∧
       ((s.(s_words) +ₗ j) ↦ #(Z.lor o m) ==∗ R a ∗ working (bool_decide (F = ∅)) (bool_decide (F ∪ M = Full j)))).
  Proof.
    iIntros (Hj Hm Hne Hsub) "HR HM Ht". iDestruct "HR" as (u h e nz fw xn xf Pn Pf Fs) "(%Hf & Hw & Hc & Ho & Hctl)".
    pose proof Hf as (Ha & Hl & Hnz & Hfw & Hh & Hu). destruct (Fs_lookup Fs j) as [F HF]; [done..|].
    iDestruct (big_sepL_insert_acc with "Hw") as "[HF Hw]"; [exact HF|].
    iDestruct "HF" as (o) "(Hl & [%Hr %HFs] & Hb)".
    iDestruct (bits_res_disjoint _ true with "Hb HM") as %Hd.
    assert (isE h nz fw = false) as HE.
    { destruct (isE h nz fw) eqn:HE; [|done]. apply bool_decide_eq_true in HE as (Hh' & HnW & HfW).
      destruct (Hh Hh') as (_ & Hxn & Hxf). pose proof (facts_empty _ _ _ _ _ _ _ _ _ _ _ Hf) as He.
      destruct He as (_ & _ & He); [lia..|]. rewrite He in HF. apply all_full_lookup in HF as [-> _]. set_solver. }
    rewrite HE /=. iExists o, F. iFrame "Hl". iSplit; [done|]. iSplit.
    - iIntros "Hl". iFrame "HM Ht". iExists u, h, e, nz, fw. iExists xn, xf, Pn, Pf, Fs. rewrite HE. iFrame. iSplit; [done|].
      iSpecialize ("Hw" $! F). rewrite list_insert_id //. iApply "Hw". iExists o. by iFrame.
    - iIntros "Hl". iMod (counts_add (bool_decide (F = ∅)) (bool_decide (F ∪ M = Full j)) with "Hc Ht") as "[Hc $]".
      iModIntro. iExists u, h, e, nz, fw. iExists xn, xf, _, _, (<[j:=F ∪ M]> Fs). rewrite HE. iFrame "Hc Ho Hctl". iSplit.
      + iPureIntro. split_and!; try done.
        * by rewrite insert_length.
        * rewrite (cnt_insert f_nz _ _ _ _ _ HF) Hnz /= free_nz //. destruct (bool_decide (F = ∅)); simpl; lia.
        * rewrite (cnt_insert f_fw _ _ _ _ _ HF) Hfw /= free_fw //. destruct (bool_decide (F ∪ M = Full j)); simpl; lia.
      + iApply "Hw". iExists _. iFrame "Hl". iSplit.
        * iPureIntro. split; [by apply repr_lor|set_solver].
        * rewrite /bits_res big_sepS_union; [iFrame|done].
  Qed.

  (* A freer's fetch_add. Who makes the anchor EMPTY has the span: all blocks' memory. *)
  Lemma R_faa a bn bf :
    bn || bf = true →
    R a -∗ working bn bf ==∗
      R (a + change bn bf) ∗ ticket ∗ if emptyb c W (a + change bn bf) then span else True.
  Proof.
    iIntros (Hb) "HR Hk". iDestruct "HR" as (u h e nz fw xn xf Pn0 Pf0 Fs) "(%Hf & Hw & Hc & Ho & Hctl)".
    iMod (counts_sub with "Hc Hk") as (Pn Pf [-> ->]) "[Hc $]". iModIntro.
    assert (facts (a + change bn bf) u h e (nz + Z.b2z bn) (fw + Z.b2z bf) xn xf Pn Pf Fs) as Hf'.
    { destruct Hf as (-> & Hl & -> & -> & Hh & Hu). split_and!; try done.
      - rewrite /enc /change. lia.
      - destruct bn; simpl; lia.
      - destruct bf; simpl; lia. }
    iDestruct (counts_bound with "Hc") as %HP. pose proof Hf as (Ha & Hl & _ & _ & Hh & Hu).
    destruct h.
    - pose proof Hf' as (Ha' & _).
      assert (emptyb c W (a + change bn bf) = false) as -> by (rewrite Ha'; by apply emptyb_enc_held). iSplit; [|done].
      iExists u, true, e, (nz + Z.b2z bn), (fw + Z.b2z bf). iExists xn, xf, Pn, Pf, Fs. iFrame. done.
    - destruct (Hh eq_refl) as (-> & -> & ->). rewrite (facts_emptyb _ _ _ _ _ _ _ _ _ _ Hf' HP).
      assert (isE false nz fw = false) as HE.
      { apply bool_decide_eq_false. intros (_ & H1 & H2).
        pose proof (facts_empty _ _ _ _ _ _ _ _ _ _ _ Hf) as (H3 & H4 & _); [lia..|]. by destruct bn, bf; simpl in *; try lia. }
      rewrite HE /=. destruct (isE false (nz + Z.b2z bn) (fw + Z.b2z bf)) eqn:HE'.
      + pose proof HE' as (_ & H1 & H2)%bool_decide_eq_true.
        pose proof (facts_empty _ _ _ _ _ _ _ _ _ _ _ Hf') as (_ & _ & HFs); [lia..|]. rewrite words_split.
        iDestruct "Hw" as "[Hw Hs]". rewrite {2}HFs. iFrame "Hs".
        iExists u, false, false, (nz + Z.b2z bn), (fw + Z.b2z bf). iExists 0, 0, Pn, Pf, Fs. rewrite HE'. iFrame. iSplit;
        [done|]. destruct u; simpl; auto.
      + iSplit; [|done]. iExists u, false, false, (nz + Z.b2z bn), (fw + Z.b2z bf). iExists 0, 0, Pn, Pf, Fs. rewrite HE'.
        by iFrame.
  Qed.

  (* Taking U away from an EMPTY anchor: the descriptor is one's own. *)
  Lemma R_settle n : emptyb c W n = true → unlb n = true → R n -∗ R (n - 1) ∗ control.
  Proof.
    iIntros (He Hun) "HR". iDestruct "HR" as (u h e nz fw xn xf Pn Pf Fs) "(%Hf & Hw & Hc & Ho & Hctl)".
    iDestruct (counts_bound with "Hc") as %HP. pose proof Hf as (Ha & Hl & Hnz & Hfw & Hh & Hu).
    rewrite Ha unlb_enc in Hun. subst u. rewrite (Hu eq_refl) in Hf Hh |- *. rewrite (facts_emptyb _ _ _ _ _ _ _ _ _ _ Hf HP) in He.
    rewrite He. iDestruct "Hctl" as "[[He $] $]".
    iExists false, false, e, nz, fw. iExists xn, xf, Pn, Pf, Fs. rewrite He. iFrame. iPureIntro. split_and!; try done.
    rewrite Ha (Hu eq_refl) /enc /=. lia.
  Qed.
  (* Taking U away, whatever else there is: the duty to list it is one's own. *)
  Lemma R_claim n : unlb n = true → R n -∗ R (n - 1) ∗ entry.
  Proof.
    iIntros (Hun) "HR". iDestruct "HR" as (u h e nz fw xn xf Pn Pf Fs) "(%Hf & Hw & Hc & Ho & Hctl)".
    pose proof Hf as (Ha & Hl & Hnz & Hfw & Hh & Hu).
    rewrite Ha unlb_enc in Hun. subst u. rewrite (Hu eq_refl) in Hf Hh |- *. iDestruct "Hctl" as "[$ Hi]".
    iExists false, false, e, nz, fw. iExists xn, xf, Pn, Pf, Fs. iFrame. iSplit.
    - iPureIntro. split_and!; try done. rewrite Ha (Hu eq_refl) /enc /=. lia.
    - simpl. destruct (isE false nz fw); simpl; auto.
  Qed.

  (* Who popped its entry. *)
  Lemma R_tombstone a : emptyb c W a = true → R a -∗ entry -∗ R a ∗ control.
  Proof.
    iIntros (He) "HR [Hen Hln]". iDestruct "HR" as (u h e nz fw xn xf Pn Pf Fs) "(%Hf & Hw & Hc & Ho & Hctl)".
    iDestruct (counts_bound with "Hc") as %HP. pose proof Hf as (Ha & Hl & Hnz & Hfw & Hh & Hu).
    destruct h; [by rewrite Ha emptyb_enc_held // in He|]. rewrite (facts_emptyb _ _ _ _ _ _ _ _ _ _ Hf HP) in He.
    destruct u; simpl. { iDestruct "Hctl" as "[[H1 _] _]". by iDestruct (entry_exclusive with "Hen H1") as %[]. }
    rewrite He. iFrame "Hln". iDestruct "Hctl" as "[$|H1]"; [|by iDestruct (entry_exclusive with "Hen H1") as %[]].
    iExists false, false, e, nz, fw. iExists xn, xf, Pn, Pf, Fs. rewrite He. iFrame. done.
  Qed.
  Lemma R_drop a : heldb a = true → R a -∗ entry -∗ R (a - 1024).
  Proof.
    iIntros (Hhe) "HR Hen". iDestruct "HR" as (u h e nz fw xn xf Pn Pf Fs) "(%Hf & Hw & Hc & Ho & Hctl)".
    pose proof Hf as (Ha & Hl & Hnz & Hfw & Hh & Hu). rewrite Ha heldb_enc in Hhe. subst h.
    destruct e; simpl; [|iDestruct "Hen" as "[Hen _]"; iDestruct "Hctl" as "[Hctl _]";
    by iDestruct (entry_exclusive with "Hen Hctl") as %[]].
    iExists u, true, false, nz, fw. iExists xn, xf, Pn, Pf, Fs. iFrame. iPureIntro. split_and!; try done. rewrite Ha /enc /=. lia.
  Qed.
  Lemma R_adopt a : heldb a = false → emptyb c W a = false → R a -∗ entry ==∗ R (a + 2) ∗ holds 0 0 ∗ held.
  Proof.
    iIntros (Hhe He) "HR Hen". iDestruct "HR" as (u h e nz fw xn xf Pn Pf Fs) "(%Hf & Hw & Hc & Ho & Hctl)".
    iDestruct (counts_bound with "Hc") as %HP. pose proof Hf as (Ha & Hl & Hnz & Hfw & Hh & Hu).
    rewrite Ha heldb_enc in Hhe. subst h. rewrite (facts_emptyb _ _ _ _ _ _ _ _ _ _ Hf HP) in He.
    destruct u; simpl.
    { iDestruct "Hctl" as "[[H1 _] _]". iDestruct "Hen" as "[Hen _]". by iDestruct (entry_exclusive with "Hen H1") as %[]. }
    rewrite He. iDestruct "Hctl" as "[Hi Hz]". destruct (Hh eq_refl) as (-> & -> & ->).
    iMod (ghost_var_update_halves (Some (0, 0)) with "Ho Hi") as "[Ho Hi]". iFrame "Hi Hz". iModIntro.
    iExists false, true, false, nz, fw. iExists 0, 0, Pn, Pf, Fs. iFrame. iPureIntro. split_and!; try done. rewrite Ha /enc /=. lia.
  Qed.
  Lemma R_unlist a : heldb a = false → emptyb c W a = false → R a -∗ entry -∗ R (a + 1).
  Proof.
    iIntros (Hhe He) "HR Hen". iDestruct "HR" as (u h e nz fw xn xf Pn Pf Fs) "(%Hf & Hw & Hc & Ho & Hctl)".
    iDestruct (counts_bound with "Hc") as %HP. pose proof Hf as (Ha & Hl & Hnz & Hfw & Hh & Hu).
    rewrite Ha heldb_enc in Hhe. subst h. rewrite (facts_emptyb _ _ _ _ _ _ _ _ _ _ Hf HP) in He.
    destruct u; simpl.
    { iDestruct "Hctl" as "[[H1 _] _]". iDestruct "Hen" as "[Hen _]". by iDestruct (entry_exclusive with "Hen H1") as %[]. }
    rewrite He. iExists true, false, e, nz, fw. iExists xn, xf, Pn, Pf, Fs. rewrite He. iFrame. iPureIntro. split_and!; try done.
    rewrite Ha /enc /=. lia.
  Qed.
  (* Who found it through the page map. *)
  Lemma R_take_at a : heldb a = false → unlb a = false → emptyb c W a = false → R a ==∗ R (a + 1026) ∗ holds 0 0 ∗ held.
  Proof.
    iIntros (Hhe Hun He) "HR". iDestruct "HR" as (u h e nz fw xn xf Pn Pf Fs) "(%Hf & Hw & Hc & Ho & Hctl)".
    iDestruct (counts_bound with "Hc") as %HP. pose proof Hf as (Ha & Hl & Hnz & Hfw & Hh & Hu).
    rewrite Ha heldb_enc in Hhe. rewrite Ha unlb_enc in Hun. subst h u. rewrite (facts_emptyb _ _ _ _ _ _ _ _ _ _ Hf HP) in He.
    rewrite He. iDestruct "Hctl" as "[Hi Hz]". destruct (Hh eq_refl) as (-> & -> & ->).
    iMod (ghost_var_update_halves (Some (0, 0)) with "Ho Hi") as "[Ho Hi]". iFrame "Hi Hz". iModIntro.
    iExists false, true, true, nz, fw. iExists 0, 0, Pn, Pf, Fs. iFrame. iPureIntro. split_and!; try done. rewrite Ha /enc /=. lia.
  Qed.

  (* The holder's fetch_and. *)
  Lemma R_take a j m M xn xf :
    (j < W)%nat → repr m M →
    R a -∗ holds xn xf -∗ ∃ (o : Z) (F : gset Z), (s.(s_words) +ₗ j) ↦ #o ∗ ⌜repr o F ∧ F ⊆ Full j⌝ ∗
      (((s.(s_words) +ₗ j) ↦ #o -∗ R a ∗ holds xn xf) ∧
       ((s.(s_words) +ₗ j) ↦ #(Z.land o (Z.lnot m)) ==∗ R a ∗ blocks j (F ∩ M) ∗
         holds (xn + Z.b2z (bool_decide (F ∩ M ≠ ∅ ∧ F ∩ M = F))) (xf + Z.b2z (bool_decide (F ∩ M ≠ ∅ ∧ F = Full j))))).
  Proof.
    iIntros (Hj Hm) "HR Hh". iDestruct "HR" as (u h e nz fw xn' xf' Pn Pf Fs) "(%Hf & Hw & Hc & Ho & Hctl)".
    iDestruct (ghost_var_agree with "Ho Hh") as %Hag. destruct h; [|done]. injection Hag as -> ->.
    pose proof Hf as (Ha & Hl & Hnz & Hfw & Hh & Hu). destruct (Fs_lookup Fs j) as [F HF]; [done..|].
    iDestruct (big_sepL_insert_acc with "Hw") as "[HF Hw]"; [exact HF|].
    iDestruct "HF" as (o) "(Hl & [%Hr %HFs] & Hb)". iExists o, F. iFrame "Hl". iSplit; [done|]. iSplit.
    - iIntros "Hl". iFrame "Hh". iExists u, true, e, nz, fw. iExists xn, xf, Pn, Pf, Fs. iFrame. iSplit; [done|].
      iSpecialize ("Hw" $! F). rewrite list_insert_id //. iApply "Hw". iExists o. by iFrame.
    - iIntros "Hl". iMod (ghost_var_update_halves (Some (_, _)) with "Ho Hh") as "[Ho $]". iModIntro.
      assert (F = (F ∖ M) ∪ (F ∩ M)) as Hsp by (apply set_eq; intros i; destruct (decide (i ∈ M)); set_solver).
      rewrite {1}Hsp /bits_res big_sepS_union; [|set_solver]. iDestruct "Hb" as "[Hb $]".
      iExists u, true, e, nz, fw. iExists _, _, Pn, Pf, (<[j:=F ∖ M]> Fs). iFrame "Hc Ho Hctl". iSplit.
      + iPureIntro. split_and!; try done.
        * by rewrite insert_length.
        * rewrite (cnt_insert f_nz _ _ _ _ _ HF) Hnz /= take_nz. lia.
        * rewrite (cnt_insert f_fw _ _ _ _ _ HF) Hfw /= take_fw //. lia.
      + iApply "Hw". iExists _. iFrame "Hl Hb". iPureIntro. split; [by apply repr_diff|set_solver].
  Qed.

  (* The holder puts back bits that it took: the inverse. *)
  Lemma R_put a j m M xn xf :
    (j < W)%nat → repr m M → M ≠ ∅ → M ⊆ Full j →
    R a -∗ holds xn xf -∗ blocks j M -∗ ∃ (o : Z) (F : gset Z), (s.(s_words) +ₗ j) ↦ #o ∗ ⌜repr o F ∧ F ## M⌝ ∗
      (((s.(s_words) +ₗ j) ↦ #o -∗ R a ∗ holds xn xf ∗ blocks j M) ∧
       ((s.(s_words) +ₗ j) ↦ #(Z.lor o m) ==∗ R a ∗
         holds (xn - Z.b2z (bool_decide (F = ∅))) (xf - Z.b2z (bool_decide (F ∪ M = Full j))))).
  Proof.
    iIntros (Hj Hm Hne Hsub) "HR Hh HM". iDestruct "HR" as (u h e nz fw xn' xf' Pn Pf Fs) "(%Hf & Hw & Hc & Ho & Hctl)".
    iDestruct (ghost_var_agree with "Ho Hh") as %Hag. destruct h; [|done]. injection Hag as -> ->.
    pose proof Hf as (Ha & Hl & Hnz & Hfw & Hh & Hu). destruct (Fs_lookup Fs j) as [F HF]; [done..|].
    iDestruct (big_sepL_insert_acc with "Hw") as "[HF Hw]"; [exact HF|].
    iDestruct "HF" as (o) "(Hl & [%Hr %HFs] & Hb)". iDestruct (bits_res_disjoint _ true with "Hb HM") as %Hd.
    iExists o, F. iFrame "Hl". iSplit; [done|]. iSplit.
    - iIntros "Hl". iFrame "Hh HM". iExists u, true, e, nz, fw. iExists xn, xf, Pn, Pf, Fs. iFrame. iSplit; [done|].
      iSpecialize ("Hw" $! F). rewrite list_insert_id //. iApply "Hw". iExists o. by iFrame.
    - iIntros "Hl". iMod (ghost_var_update_halves (Some (_, _)) with "Ho Hh") as "[Ho $]". iModIntro.
      iExists u, true, e, nz, fw. iExists _, _, Pn, Pf, (<[j:=F ∪ M]> Fs). iFrame "Hc Ho Hctl". iSplit.
      + iPureIntro. split_and!; try done.
        * by rewrite insert_length.
        * rewrite (cnt_insert f_nz _ _ _ _ _ HF) Hnz /= free_nz //. lia.
        * rewrite (cnt_insert f_fw _ _ _ _ _ HF) Hfw /=. pose proof (free_fw _ _ _ Hne Hsub Hd). lia.
      + iApply "Hw". iExists _. iFrame "Hl". iSplit.
        * iPureIntro. split; [by apply repr_lor|set_solver].
        * rewrite /bits_res big_sepS_union; [iFrame|done].
  Qed.

  (* The holder's last step. *)
  Lemma R_let_go a xn xf n :
    n = a - (4096 * xn + 4294967296 * xf) - 2 - (if entb a then 1024 else 0) →
    R a -∗ holds xn xf -∗ held ==∗
      if emptyb c W n then R n ∗ span ∗ if entb a then True else control
      else if entb a then R n
      else if nzposb n then R n ∗ entry
      else R (n + 1).
  Proof.
    iIntros (Hn) "HR Hh Hz". iDestruct "HR" as (u h e nz fw xn' xf' Pn Pf Fs) "(%Hf & Hw & Hc & Ho & Hctl)".
    iDestruct (ghost_var_agree with "Ho Hh") as %Hag. destruct h; [|done]. injection Hag as -> ->.
    iDestruct (counts_bound with "Hc") as %HP. pose proof Hf as (Ha & Hl & Hnz & Hfw & Hh & Hu).
    destruct u; [by specialize (Hu eq_refl)|]. rewrite Ha entb_enc // in Hn |- *.
    assert (facts n false false false (nz - xn) (fw - xf) 0 0 Pn Pf Fs) as Hf'.
    { split_and!; try done; [|lia..]. rewrite Hn /enc. destruct e; simpl; lia. }
    iMod (ghost_var_update_halves None with "Ho Hh") as "[Ho Hh]". iModIntro.
    rewrite (facts_emptyb _ _ _ _ _ _ _ _ _ _ Hf' HP) (facts_nzposb _ _ _ _ _ _ _ _ _ _ Hf' HP).
    iAssert idle with "[Hh Hz]" as "Hi"; [iFrame|].
    destruct (isE false (nz - xn) (fw - xf)) eqn:HE.
    - pose proof HE as (_ & H1 & H2)%bool_decide_eq_true.
      pose proof (facts_empty _ _ _ _ _ _ _ _ _ _ _ Hf') as (_ & _ & HFs); [lia..|]. rewrite /= words_split.
      iDestruct "Hw" as "[Hw Hs]". rewrite {2}HFs. iFrame "Hs". destruct e.
      + iSplit; [|done]. iExists false, false, false, (nz - xn), (fw - xf). iExists 0, 0, Pn, Pf, Fs. rewrite HE.
        iFrame "Hw Hc Ho". iSplit; [done|]. simpl. iLeft. iFrame "Hi".
      + iDestruct "Hctl" as "[Hctl $]". iFrame "Hi". iExists false, false, false, (nz - xn), (fw - xf). iExists 0, 0, Pn, Pf, Fs.
        rewrite HE. iFrame "Hw Hc Ho". iSplit; [done|]. simpl. iRight. iFrame "Hctl".
    - destruct e; [|case_bool_decide as Hp].
      + iExists false, false, false, (nz - xn), (fw - xf). iExists 0, 0, Pn, Pf, Fs. rewrite HE. iFrame. done.
      + iFrame "Hctl". iExists false, false, false, (nz - xn), (fw - xf). iExists 0, 0, Pn, Pf, Fs. rewrite HE. iFrame. done.
      + iExists true, false, false, (nz - xn), (fw - xf). iExists 0, 0, Pn, Pf, Fs. rewrite HE. iFrame. iPureIntro.
        destruct Hf' as (Hn' & ?&?&?&?&?). split_and!; try done. rewrite Hn' /enc /=. lia.
  Qed.

  (* Before a new life its maker writes every word. It changes nothing: they are full already. *)
  Lemma R_rewrite a j (z : Z) :
    (j < W)%nat →
    R a -∗ ghost_var g.(g_owed) (1/2) None -∗ s.(s_owed) ↦ #z -∗ ∃ o : Z, (s.(s_words) +ₗ j) ↦ #o ∗ ⌜repr o (Full j)⌝ ∗
      ((s.(s_words) +ₗ j) ↦ #o -∗ R a ∗ ghost_var g.(g_owed) (1/2) None ∗ s.(s_owed) ↦ #z).
  Proof.
    iIntros (Hj) "HR Hi Hz". iDestruct "HR" as (u h e nz fw xn xf Pn Pf Fs) "(%Hf & Hw & Hc & Ho & Hctl)".
    iDestruct (ghost_var_agree with "Ho Hi") as %Hag. destruct h; [done|].
    pose proof Hf as (Ha & Hl & Hnz & Hfw & Hh & Hu). destruct (Hh eq_refl) as (-> & -> & ->).
    iAssert (⌜isE false nz fw = true⌝)%I as %HE.
    { destruct (isE false nz fw) eqn:HE; [done|]. destruct u; simpl.
      - iDestruct "Hctl" as "[_ [_ (%z' & H1)]]". by iDestruct (mapsto_ne with "Hz H1") as %[].
      - iDestruct "Hctl" as "[_ (%z' & H1)]". by iDestruct (mapsto_ne with "Hz H1") as %[]. }
    pose proof HE as (_ & H1 & H2)%bool_decide_eq_true.
    pose proof (facts_empty _ _ _ _ _ _ _ _ _ _ _ Hf) as (_ & _ & HFs); [lia..|].
    destruct (Fs_lookup Fs j) as [F HF]; [done..|].
    assert (F = Full j) as -> by (rewrite HFs in HF; by apply all_full_lookup in HF as [-> _]).
    iDestruct (big_sepL_lookup_acc with "Hw") as "[HF Hw]"; [exact HF|].
    iDestruct "HF" as (o) "(Hl & [%Hr %HFs'] & Hb)". iExists o. iFrame "Hl". iSplit; [done|]. iIntros "Hl". iFrame "Hi Hz".
    iExists u, false, false, nz, fw. iExists 0, 0, Pn, Pf, Fs. rewrite HE. iFrame. iSplit; [done|].
    iApply "Hw". iExists o. by iFrame.
  Qed.

  (* What is true of the flags, for whom. *)
  Lemma R_let_go_unl a xn xf n :
    n = a - (4096 * xn + 4294967296 * xf) - 2 - (if entb a then 1024 else 0) → R a -∗ holds xn xf -∗ ⌜unlb n = false⌝.
  Proof.
    iIntros (Hn) "HR Hh". iDestruct "HR" as (u h e nz fw xn' xf' Pn Pf Fs) "(%Hf & Hw & Hc & Ho & Hctl)".
    iDestruct (ghost_var_agree with "Ho Hh") as %Hag. destruct h; [|done]. iPureIntro.
    destruct Hf as (-> & _ & _ & _ & _ & Hu). destruct u; [by specialize (Hu eq_refl)|].
    rewrite entb_enc // in Hn. rewrite -(unlb_enc c false false false (nz - xn) (fw - xf)). f_equal.
    rewrite Hn /enc. destruct e; simpl; lia.
  Qed.
  Lemma R_entry_unl a : R a -∗ entry -∗ ⌜unlb a = false⌝.
  Proof.
    iIntros "HR [Hen _]". iDestruct "HR" as (u h e nz fw xn' xf' Pn Pf Fs) "(%Hf & Hw & Hc & Ho & Hctl)".
    destruct Hf as (-> & _ & _ & _ & _ & Hu). rewrite unlb_enc. destruct u; [|done]. rewrite (Hu eq_refl) /=.
    iDestruct "Hctl" as "[[H1 _] _]". by iDestruct (entry_exclusive with "Hen H1") as %[].
  Qed.
  Lemma R_entry_ent a : heldb a = true → R a -∗ entry -∗ ⌜entb a = true⌝.
  Proof.
    iIntros (Hhe) "HR [Hen _]". iDestruct "HR" as (u h e nz fw xn' xf' Pn Pf Fs) "(%Hf & Hw & Hc & Ho & Hctl)".
    destruct Hf as (-> & _ & _ & _ & _ & Hu). rewrite heldb_enc in Hhe. subst h. rewrite entb_enc //. destruct e; [done|].
    iDestruct "Hctl" as "[H1 _]". by iDestruct (entry_exclusive with "Hen H1") as %[].
  Qed.
  Lemma R_free_ent a : R a -∗ ⌜heldb a = false → entb a = false⌝.
  Proof.
    iIntros "HR". iDestruct "HR" as (u h e nz fw xn' xf' Pn Pf Fs) "(%Hf & Hw & Hc & Ho & Hctl)". iPureIntro.
    destruct Hf as (-> & _ & _ & _ & Hh & _). rewrite heldb_enc entb_enc //. intros ->. by destruct (Hh eq_refl).
  Qed.

  (* A new life: who has the descriptor and a span. The words are full already. *)
  Lemma R_born a (z : Z) : R a -∗ ghost_var g.(g_owed) (1/2) None -∗ s.(s_owed) ↦ #z -∗ link -∗ span ==∗
      R (born c W) ∗ holds 0 0 ∗ s.(s_owed) ↦ #z.
  Proof.
    iIntros "HR Hi Hz0 Hln Hs". iAssert (held ∧ s.(s_owed) ↦ #z)%I with "[Hz0]" as "Hz"; [iSplit; [by iExists _|done]|].
    iDestruct "HR" as (u h e nz fw xn xf Pn Pf Fs) "(%Hf & Hw & Hc & Ho & Hctl)".
    iDestruct (ghost_var_agree with "Ho Hi") as %Hag. destruct h; [done|].
    pose proof Hf as (Ha & Hl & Hnz & Hfw & Hh & Hu). destruct (Hh eq_refl) as (-> & -> & ->).
    destruct u; simpl. { iDestruct "Hctl" as "[_ H1]". iDestruct "Hz" as "[Hz _]";
    by iDestruct (idle_exclusive with "H1 Hz") as %[]. }
    destruct (isE false nz fw) eqn:HE; [|iDestruct "Hz" as "[Hz _]"; by iDestruct (idle_exclusive with "Hctl Hz") as %[]].
    iDestruct "Hctl" as "[H1|Hen]"; [iDestruct "Hz" as "[Hz _]"; by iDestruct (idle_exclusive with "H1 Hz") as %[]|].
    pose proof HE as (_ & -> & ->)%bool_decide_eq_true.
    pose proof (facts_empty _ _ _ _ _ _ _ _ _ _ _ Hf) as (HPn & HPf & HFs); [lia..|].
    iMod (ghost_var_update_halves (Some (0, 0)) with "Ho Hi") as "[Ho Hi]". iFrame "Hi". iDestruct "Hz" as "[_ $]". iModIntro.
    iExists false, true, false, W, W. iExists 0, 0, Pn, Pf, Fs. iFrame. iSplit.
    - iPureIntro. split_and!; try done. by apply born_enc.
    - rewrite /= words_split HFs. iFrame.
  Qed.
End ghost.
