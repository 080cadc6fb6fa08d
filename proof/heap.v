(* SPDX-License-Identifier: MIT *)
(* heap.v: the parts put together: malloc and free of one class, over K descriptors, a partial list, a pool and a chunk's word.

   Stands for  src/superblock/superblocks.h: hold, make, take_one, for threads without a slab; free of one block
   Discharged  what superblock.v asks of the modules around it: list is a push to the partial list, recycle one to the pool
               (tagged_stack.v), give clears the bit of the span's frame (pages.v)
   A block     is named by a number, which says its descriptor, word and bit, as the map of pages and a division do
   Left out    a second list for trims, NUMA nodes, magazines, several classes; descriptor d has frame d in each life *)
From iris.algebra Require Import gset auth excl numbers.
From iris.base_logic.lib Require Import ghost_var ghost_map mono_nat invariants.
From freeway Require Import bits anchor superblock_state superblock tagged_stack pages.
From iris.heap_lang Require Import proofmode notation.
From iris.prelude Require Import options.
Set Default Proof Using "All".
Open Scope Z_scope.

Lemma repr_bit i : 0 ≤ i → repr (Z.shiftl 1 i) {[i]}.
Proof.
  intros Hi k. rewrite -(Z.mul_1_l (Z.shiftl 1 i)) Z.mul_1_l Z.shiftl_1_l.
  destruct (decide (k = i)) as [->|Hne].
  - rewrite Z.pow2_bits_true // bool_decide_true //. set_solver.
  - rewrite Z.pow2_bits_false // bool_decide_false //. set_solver.
Qed.

(* One program for each descriptor: what an array of descriptors is in C++. *)
Fixpoint dispatch (K : nat) (f : nat → val) : val :=
  match K with
  | O => λ: "d" "x", #()
  | S k => λ: "d" "x", if: "d" = #(S k) then (f (S k)) "x" else (dispatch k f) "d" "x"
  end.

Record places := { p_anchors : loc; p_oweds : loc; p_words : loc; p_links : loc; p_list : loc; p_pool : loc;
  p_used : loc; p_memory : loc }.

Section heap.
  Context `{!heapGS Σ, !sbG Σ, !mono_natG Σ, !ghost_mapG Σ nat (list Z)}.
  Context (c : Z) (W T K : nat) (Ones Last : gset Z) (ones last : Z) (p : places) (N : namespace).
  Context (gs : nat → names) (γt1 γm1 γt2 γm2 : gname).
  Context (HW : (0 < W)%nat) (HWT : Z.of_nat W < 262144) (HT : Z.of_nat T < 262144) (Hc : 0 ≤ c < 256).
  Context (HK : Z.of_nat K < B) (HOnes : Ones ≠ ∅) (HLast : Last ≠ ∅) (Hones : repr ones Ones) (Hlast : repr last Last).
  Notation Full := (superblock.Full W Ones Last).
  Context (HFull64 : ∀ j i, i ∈ Full j → 0 ≤ i < 64).

  Definition sbd (d : nat) : sb :=
    {| s_anchor := p.(p_anchors) +ₗ d; s_words := p.(p_words) +ₗ (d * W)%nat; s_owed := p.(p_oweds) +ₗ d |}.
  Definition index (d j : nat) (i : Z) : Z := (d * W + j)%nat * 64 + i.
  Definition memd (d j : nat) (i : Z) : iProp Σ := ∃ v : val, (p.(p_memory) +ₗ index d j i) ↦ v.
  Definition linkd (d : nat) : iProp Σ := tagged_stack.link p.(p_links) d.
  Definition spand (d : nat) : iProp Σ := superblock_state.span W Full (memd d).
  Notation entryd d := (superblock_state.entry (gs d) (linkd d)).
  Notation controld d := (superblock_state.control (gs d) (sbd d) (linkd d)).

  Definition listed (z : Z) : iProp Σ := entry_right (gs (Z.to_nat z)).
  Definition pooled (z : Z) : iProp Σ := idle (gs (Z.to_nat z)) (sbd (Z.to_nat z)).
  Definition All : gset Z := list_to_set (seqZ 1 K).
  Definition env : iProp Σ :=
    is_stack (N .@ "stacks") p.(p_list) p.(p_links) K γt1 γm1 listed ∗
    is_stack (N .@ "stacks") p.(p_pool) p.(p_links) K γt2 γm2 pooled ∗
    is_pages (N .@ "pages") p.(p_used) All (λ z, spand (Z.to_nat z)).
  Notation is_sbd d := (superblock.is_sb c W T Ones Last (gs d) (sbd d) (N .@ "sb") (memd d) (linkd d) env).
  Notation holderd d := (superblock.holder (gs d) (sbd d)).
  Definition tickets : iProp Σ := [∗ list] d ∈ seq 1 K, ticket (gs d).
  Definition is_heap : iProp Σ := env ∗ [∗ list] d ∈ seq 1 K, is_sbd d.

  Global Instance memd_timeless d j i : Timeless (memd d j i).
  Proof. rewrite /memd. apply _. Qed.
  Global Instance linkd_timeless d : Timeless (linkd d).
  Proof. rewrite /linkd /tagged_stack.link. apply _. Qed.
  Global Instance spand_timeless z : Timeless (spand z).
  Proof. rewrite /spand /superblock_state.span. apply _. Qed.
  Global Instance listed_timeless z : Timeless (listed z).
  Proof. rewrite /listed /entry_right. apply _. Qed.
  Global Instance pooled_timeless z : Timeless (pooled z).
  Proof. rewrite /pooled /idle. apply _. Qed.
  Global Instance env_persistent : Persistent env.
  Proof. rewrite /env /is_stack /are_links /is_pages. apply _. Qed.

  (* The modules. *)
  Definition give (d : nat) : val := λ: <>, give_frames #p.(p_used) (#1 ≪ #d);; #().
  Definition enlist (d : nat) : val := λ: <>, push #p.(p_list) #p.(p_links) #d.
  Definition recycle (d : nat) : val := λ: <>, push #p.(p_pool) #p.(p_links) #d.
  Definition of_descriptor (f : nat → val) : val := dispatch K f.
  Definition let_god (d : nat) : val := superblock.let_go c W (sbd d) (give d) (enlist d) (recycle d).
  Definition adoptd (d : nat) : val := superblock.adopt c W (sbd d) (recycle d).
  Definition birthd (d : nat) : val := superblock.birth c W ones last (sbd d).
  Definition taked (d : nat) : val := superblock.take_bits W ones last (sbd d).
  Definition freed (d : nat) : val := λ: "x",
    superblock.free_group c W ones last (sbd d) (give d) (enlist d) (recycle d) (Fst "x") (Snd "x").

  (* The first free block; -1: none was seen. *)
  Definition scan (d : nat) : val := rec: "scan" "n" :=
    if: "n" = #(W * 64)%nat then #(-1)
    else if: taked d ("n" `quot` #64) (#1 ≪ ("n" `rem` #64)) = #0 then "scan" ("n" + #1) else "n".
  Definition make : val := λ: <>,
    let: "d" := pop #p.(p_pool) #p.(p_links) in
    if: "d" = #0 then #0
    else if: claim_frames #p.(p_used) (#1 ≪ "d") then of_descriptor birthd "d" #();; "d"
    else of_descriptor recycle "d" #();; #0.
  Definition hold : val := rec: "hold" <> :=
    let: "d" := pop #p.(p_list) #p.(p_links) in
    if: "d" = #0 then make #()
    else if: of_descriptor adoptd "d" #() then "d" else "hold" #().
  Definition malloc : val := rec: "malloc" <> :=      (* 0: no memory *)
    let: "d" := hold #() in
    if: "d" = #0 then #0
    else
      let: "n" := of_descriptor scan "d" #0 in
      of_descriptor let_god "d" #();;
      if: "n" < #0 then "malloc" #() else "d" * #(W * 64)%nat + "n".
  Definition free : val := λ: "n",
    let: "r" := "n" `rem` #(W * 64)%nat in
    of_descriptor freed ("n" `quot` #(W * 64)%nat) ("r" `quot` #64, #1 ≪ ("r" `rem` #64)).

  (* What the program owns of a block that it allocated: its memory, and that nobody else has it. *)
  Definition block (n : Z) : iProp Σ := ∃ (d j : nat) (i : Z),
    ⌜(1 ≤ d ≤ K)%nat ∧ (j < W)%nat ∧ i ∈ Full j ∧ n = index d j i⌝ ∗ blocks (gs d) (memd d) j {[i]}.

  Lemma block_memory n : block n -∗ ∃ v, (p.(p_memory) +ₗ n) ↦ v ∗ (∀ v', (p.(p_memory) +ₗ n) ↦ v' -∗ block n).
  Proof using Type.
    iIntros "(%d & %j & %i & (%Hd & %Hj & %Hi & ->) & Hb)". rewrite /blocks /bits_res big_sepS_singleton.
    iDestruct "Hb" as "[Ht (%v & Hm)]". iExists v. iFrame. iIntros (v') "Hm". iExists d, j, i. iSplit; [done|].
    rewrite /blocks /bits_res big_sepS_singleton. iFrame. by iExists v'.
  Qed.
  Lemma block_exclusive n : block n -∗ block n -∗ False.
  Proof using Type.
    iIntros "H1 H2". iDestruct (block_memory with "H1") as (v) "[H1 _]". iDestruct (block_memory with "H2") as (w) "[H2 _]".
    by iDestruct (mapsto_ne with "H1 H2") as %[].
  Qed.

  Lemma spand_exclusive z : spand (Z.to_nat z) -∗ spand (Z.to_nat z) -∗ False.
  Proof.
    iIntros "H1 H2". assert (all_full W Full !! 0%nat = Some (Full 0)) as H0.
    { rewrite /all_full list_lookup_fmap lookup_seq_lt //. }
    iDestruct (big_sepL_lookup with "H1") as "H1"; [exact H0|]. iDestruct (big_sepL_lookup with "H2") as "H2"; [exact H0|].
    assert (Full 0 ≠ ∅) as [i Hi]%set_choose_L by (rewrite /superblock.Full; by case_decide).
    iDestruct (big_sepS_elem_of with "H1") as (v) "H1"; [exact Hi|]. iDestruct (big_sepS_elem_of with "H2") as (w) "H2";
    [exact Hi|].
    by iDestruct (mapsto_ne with "H1 H2") as %[].
  Qed.
  Lemma in_All d : (1 ≤ d ≤ K)%nat → {[Z.of_nat d]} ⊆ All.
  Proof. intros Hd z ->%elem_of_singleton. apply elem_of_list_to_set, elem_of_seqZ. lia. Qed.

  Lemma give_spec d : (1 ≤ d ≤ K)%nat → {{{ env ∗ spand d }}} give d #() {{{ RET #(); True }}}.
  Proof.
    iIntros (Hd Φ) "[(_ & _ & #P) Hs] HΦ". wp_lam. wp_pures.
    wp_apply (give_frames_spec _ _ _ _ spand_exclusive _ {[Z.of_nat d]} with "[$P Hs]"); [apply repr_bit; lia|by apply in_All| |].
    - rewrite /frames big_sepS_singleton Nat2Z.id. done.
    - iIntros (w) "_". wp_pures. by iApply "HΦ".
  Qed.
  Lemma list_spec d : (1 ≤ d ≤ K)%nat → {{{ env ∗ entryd d }}} enlist d #() {{{ RET #(); True }}}.
  Proof.
    iIntros (Hd Φ) "[(#S & _ & _) [He Hl]] HΦ". wp_lam.
    wp_apply (push_spec with "[$S He Hl]"); [lia..| |done]. rewrite /node /listed Nat2Z.id. iFrame. iPureIntro. lia.
  Qed.
  Lemma recycle_spec d : (1 ≤ d ≤ K)%nat → {{{ env ∗ controld d }}} recycle d #() {{{ RET #(); True }}}.
  Proof.
    iIntros (Hd Φ) "[(_ & #S & _) [He Hl]] HΦ". wp_lam.
    wp_apply (push_spec with "[$S He Hl]"); [lia..| |done]. rewrite /node /pooled Nat2Z.id. iFrame. iPureIntro. lia.
  Qed.

  (* What superblock.v proves, with these modules, of descriptor d. *)
  Notation of_d spec d Hd := (spec c W T Ones Last ones last (gs d) (sbd d) (N .@ "sb") (memd d) (memd_timeless d) (linkd d) (linkd_timeless d) HW HWT HT Hc
    HOnes HLast Hones Hlast (give d) (enlist d) (recycle d) env env_persistent (give_spec d Hd) (list_spec d Hd) (recycle_spec d Hd)).

  Lemma wp_dispatch (f : nat → val) k (d : nat) (x : val) Φ :
    (1 ≤ d ≤ k)%nat → WP f d x {{ Φ }} -∗ WP dispatch k f #d x {{ Φ }}.
  Proof.
    induction k as [|k IH]; iIntros (Hd) "H"; [lia|]. simpl. wp_pures. case_bool_decide as He; wp_pures.
    - injection He as He. assert (d = S k) as -> by lia. done.
    - iApply IH; [|done]. assert (d ≠ S k) by naive_solver. lia.
  Qed.
  Lemma is_sbd_lookup d : (1 ≤ d ≤ K)%nat → is_heap -∗ is_sbd d.
  Proof.
    iIntros (Hd) "[_ H]". iApply (big_sepL_lookup _ _ (d - 1) with "H"). rewrite lookup_seq_lt; [f_equal|]; lia.
  Qed.

  Lemma scan_spec d (n : nat) :
    (1 ≤ d ≤ K)%nat → (n ≤ W * 64)%nat →
    {{{ is_heap ∗ holderd d }}} scan d #n
    {{{ (z : Z), RET #z; holderd d ∗ if decide (z < 0) then True else block (d * (W * 64)%nat + z) }}}.
  Proof.
    iIntros (Hd Hn Φ) "[#H Hh] HΦ". iDestruct (is_sbd_lookup with "H") as "I"; [done|].
    iLöb as "IH" forall (n Hn). wp_lam. wp_pures. case_bool_decide as He; wp_pures; [iApply ("HΦ" $! (-1)); by iFrame|].
    assert (n < W * 64)%nat as Hlt.
    { destruct (decide (n = W * 64)%nat) as [->|]; [done|lia]. }
    assert (Z.quot n 64 = Z.of_nat (n / 64)) as Hq by (rewrite Nat2Z.inj_div Z.quot_div_nonneg //; lia).
    assert (Z.rem n 64 = Z.of_nat (n mod 64)) as Hr by (rewrite Nat2Z.inj_mod Z.rem_mod_nonneg //; lia).
    rewrite Hq Hr. assert (n / 64 < W)%nat as Hj by (apply Nat.div_lt_upper_bound; lia).
    wp_apply (of_d take_bits_spec d Hd _ _ {[Z.of_nat (n mod 64)]} with "[$I $Hh]"); [done|apply repr_bit; lia|].
    iIntros (got G) "((%HG & %HGM & %HGF) & Hh & Hb)". wp_pures. case_bool_decide as H0; wp_pures.
    - replace (n + 1) with (Z.of_nat (S n)) by lia. iApply ("IH" with "[] Hh HΦ"). iPureIntro. lia.
    - assert (G = {[Z.of_nat (n mod 64)]}) as ->.
      { assert (G ≠ ∅) as [i Hi]%set_choose_L; [|set_solver].
        intros ->. apply H0. f_equal. f_equal. apply (repr_inj _ _ ∅); [done|apply repr_0]. }
      iApply ("HΦ" $! n). iFrame "Hh". rewrite decide_False; [|lia]. iModIntro.
      iExists d, (n / 64)%nat, (Z.of_nat (n mod 64)). iFrame "Hb". iPureIntro. split_and!; [lia|lia|done|set_solver|].
      rewrite /index. pose proof (Nat.div_mod n 64). nia.
  Qed.

  Lemma make_spec : {{{ is_heap }}} make #() {{{ (z : Z), RET #z; if decide (z = 0) then True else
    ∃ d : nat, ⌜z = d ∧ (1 ≤ d ≤ K)%nat⌝ ∗ holderd d }}}.
  Proof.
    iIntros (Φ) "#H HΦ". iDestruct "H" as "[E Hs]". iDestruct "E" as "(S1 & S2 & P)". wp_lam.
    wp_apply (pop_spec with "S2"); [lia..|]. iIntros (z) "Hn". wp_pures. case_bool_decide as H0; wp_pures.
    { iApply ("HΦ" $! 0). done. }
    rewrite decide_False; [|naive_solver]. iDestruct "Hn" as "(%Hz & Hl & Hi)".
    assert (∃ d : nat, z = d ∧ (1 ≤ d ≤ K)%nat) as (d & -> & Hd) by (exists (Z.to_nat z); lia).
    iAssert (is_sbd d) as "I"; [iApply is_sbd_lookup; [done|iFrame "#"]|].
    rewrite /pooled Nat2Z.id.
    wp_apply (claim_frames_spec _ _ _ _ spand_exclusive _ {[Z.of_nat d]} with "P"); [apply repr_bit; lia|by apply in_All|].
    iIntros ([]) "HF"; wp_pures.
    - wp_apply wp_dispatch; [done|]. wp_apply (of_d birth_spec d Hd with "[$I Hl Hi HF]").
      { rewrite /frames big_sepS_singleton Nat2Z.id. iFrame. }
      iIntros "Hh". wp_pures. iApply ("HΦ" $! d). rewrite decide_False; [|lia]. iExists d. by iFrame.
    - wp_apply wp_dispatch; [done|]. wp_apply (recycle_spec with "[$S1 $S2 $P $Hl $Hi]"); [done|]. iIntros "_". wp_pures.
      iApply ("HΦ" $! 0). done.
  Qed.

  Lemma hold_spec : {{{ is_heap }}} hold #() {{{ (z : Z), RET #z; if decide (z = 0) then True else
    ∃ d : nat, ⌜z = d ∧ (1 ≤ d ≤ K)%nat⌝ ∗ holderd d }}}.
  Proof.
    iIntros (Φ) "#H HΦ". iLöb as "IH". wp_lam. iDestruct "H" as "[E Hs]". iDestruct "E" as "(S1 & S2 & P)".
    wp_apply (pop_spec with "S1"); [lia..|]. iIntros (z) "Hn". wp_pures. case_bool_decide as H0; wp_pures.
    { wp_apply (make_spec with "[]"); [by iFrame "#"|]. iApply "HΦ". }
    rewrite decide_False; [|naive_solver]. iDestruct "Hn" as "(%Hz & Hl & Hi)".
    assert (∃ d : nat, z = d ∧ (1 ≤ d ≤ K)%nat) as (d & -> & Hd) by (exists (Z.to_nat z); lia).
    iAssert (is_sbd d) as "I"; [iApply is_sbd_lookup; [done|iFrame "#"]|]. rewrite /listed Nat2Z.id.
    wp_apply wp_dispatch; [done|].
    wp_apply (of_d adopt_spec d Hd with "[$I $Hl $Hi]").
    iIntros ([]) "Hh"; wp_pures.
    - iApply ("HΦ" $! d). rewrite decide_False; [|lia]. iExists d. by iFrame.
    - by iApply "IH".
  Qed.

  (* Any thread, at any time. *)
  Theorem malloc_spec : {{{ is_heap }}} malloc #() {{{ (n : Z), RET #n; if decide (n = 0) then True else block n }}}.
  Proof.
    iIntros (Φ) "#H HΦ". iLöb as "IH". wp_lam. wp_apply (hold_spec with "H"). iIntros (z) "Hd". wp_pures.
    case_bool_decide as H0; wp_pures; [by iApply ("HΦ" $! 0)|]. rewrite decide_False; [|naive_solver].
    iDestruct "Hd" as (d [-> Hd]) "Hh". iDestruct (is_sbd_lookup with "H") as "I"; [done|].
    wp_apply wp_dispatch; [done|]. wp_apply (scan_spec d 0 with "[$H $Hh]"); [done|lia|]. iIntros (n) "[Hh Hb]". wp_pures.
    wp_apply wp_dispatch; [done|]. wp_apply (of_d let_go_spec d Hd with "[$I $Hh]"). iIntros "_". wp_pures.
    case_bool_decide as Hn; wp_pures; [by iApply "IH"|]. rewrite decide_False //. iApply "HΦ".
    iModIntro. case_decide; done.
  Qed.
  Theorem free_spec n : {{{ is_heap ∗ block n ∗ tickets }}} free #n {{{ RET #(); tickets }}}.
  Proof.
    iIntros (Φ) "(#H & (%d & %j & %i & (%Hd & %Hj & %Hi & ->) & Hb) & Ht) HΦ".
    iDestruct (is_sbd_lookup with "H") as "I"; [done|]. pose proof (HFull64 _ _ Hi) as Hi64.
    assert (index d j i = (W * 64)%nat * d + (j * 64 + i)) as Hn by (rewrite /index; nia).
    assert (0 ≤ j * 64 + i < (W * 64)%nat) as Hrange by nia. assert (0 ≤ index d j i) as H0 by (rewrite /index; lia).
    assert (Z.rem (index d j i) (W * 64)%nat = j * 64 + i) as Hr by (symmetry; by apply (Z.rem_unique _ _ d)).
    assert (Z.quot (index d j i) (W * 64)%nat = d) as Hq by (symmetry; by apply (Z.quot_unique _ _ _ (j * 64 + i))).
    assert (Z.quot (j * 64 + i) 64 = j) as Hq2 by (symmetry; apply (Z.quot_unique _ _ _ i); lia).
    assert (Z.rem (j * 64 + i) 64 = i) as Hr2 by (symmetry; apply (Z.rem_unique _ _ j); lia).
    wp_lam. wp_pures. rewrite Hr Hq Hq2 Hr2. wp_apply wp_dispatch; [done|].
    assert (seq 1 K !! (d - 1)%nat = Some d) as Hs by (rewrite lookup_seq_lt; [f_equal|]; lia).
    iDestruct (big_sepL_lookup_acc with "Ht") as "[Ht Hts]"; [exact Hs|].
    wp_lam. wp_pures. wp_apply (of_d free_group_spec d Hd _ _ {[i]} with "[$I $Hb $Ht]");
      [done|apply repr_bit; lia|set_solver|set_solver|].
    iIntros "Ht". iApply "HΦ". by iApply "Hts".
  Qed.
End heap.
