(* SPDX-License-Identifier: MIT *)
(* superblock.v: the operations on superblocks as HeapLang programs, and their specifications.

   Stands for  src/superblock/superblocks.h: free_group with was_freed and settle_empty, take_bits, put_bits, let_go, adopt_from's
               inner loop, take_at, and the end of make. proof/README.md has the table
   Parameters  the modules around it are any that want just these resources: give (the span), list (the entry), recycle (the
               descriptor). client.v gives real ones
   Left out    double frees (was_freed's `twice` is 0 for a thread that owns the blocks), NUMA nodes, where take looks first *)
From iris.algebra Require Import gset auth excl numbers.
From iris.base_logic.lib Require Import ghost_var invariants.
From freeway Require Import bits anchor superblock_state.
From iris.heap_lang Require Import proofmode notation.
From iris.prelude Require Import options.
Set Default Proof Using "All".
Open Scope Z_scope.

Section prog.
  Context `{!heapGS Σ, !sbG Σ}.
  Context (c : Z) (W T : nat) (Ones Last : gset Z) (ones last : Z) (g : names) (s : sb) (N : namespace).
  Context (mem : nat → Z → iProp Σ) `{!∀ j i, Timeless (mem j i)} (link : iProp Σ) `{!Timeless link}.
  Context (HW : (0 < W)%nat) (HWT : Z.of_nat W < 262144) (HT : Z.of_nat T < 262144) (Hc : 0 ≤ c < 256).
  Context (HOnes : Ones ≠ ∅) (HLast : Last ≠ ∅) (Hones : repr ones Ones) (Hlast : repr last Last).

  (* SizeClass::full_mask: all words but the last have the same blocks. *)
  Definition Full (j : nat) : gset Z := if decide (S j = W) then Last else Ones.
  Definition full (j : nat) : Z := if decide (S j = W) then last else ones.
  Lemma HFull j : Full j ≠ ∅.
  Proof. rewrite /Full. by case_decide. Qed.
  Lemma Hfull j : repr (full j) (Full j).
  Proof. rewrite /full /Full. by case_decide. Qed.
  Hint Resolve HFull : core.

  Notation R := (superblock_state.R c W T Full g s mem link).
  Notation blocks := (superblock_state.blocks g mem).
  Notation span := (superblock_state.span W Full mem).
  Notation entry := (superblock_state.entry g link).
  Notation control := (superblock_state.control g s link).
  Notation ticket := (superblock_state.ticket g).

  (* The modules around it, for this superblock: pages, partial lists, the pool of descriptors. *)
  Context (give list recycle : val).
  Context (env : iProp Σ) `{!Persistent env}.     (* what these modules rest on: their own invariants *)
  Context (give_spec : {{{ env ∗ span }}} give #() {{{ RET #(); True }}}).
  Context (list_spec : {{{ env ∗ entry }}} list #() {{{ RET #(); True }}}).
  Context (recycle_spec : {{{ env ∗ control }}} recycle #() {{{ RET #(); True }}}).

  (* anchor.h *)
  Definition is_unlisted : val := λ: "a", ~ (BinOp AndOp "a" #1 = #0).
  Definition is_held : val := λ: "a", ~ (BinOp AndOp "a" #2 = #0).
  Definition has_entry : val := λ: "a", ~ (BinOp AndOp "a" #1024 = #0).
  Definition nz_positive : val := λ: "a",
    let: "x" := BinOp AndOp ("a" ≫ #12) #1048575 in (#0 < "x") && ("x" < #524288).
  Definition is_empty : val := λ: "a", BinOp AndOp "a" #4503599627370494 = #(empty_state c W).
  Definition full_mask : val := λ: "j", if: "j" + #1 = #W then #last else #ones.
  Definition plus : val := λ: "old" "mask" "full",
    (if: "old" = #0 then #4096 else #0) + (if: BinOp OrOp "old" "mask" = "full" then #4294967296 else #0).
  Definition minus : val := λ: "old" "mask" "full",
    (if: "old" = "mask" then #4096 else #0) + (if: "old" = "full" then #4294967296 else #0).
  Definition wants_listing : val := λ: "a", is_unlisted "a" && nz_positive "a".
  Definition may_take : val := λ: "a", (~ is_held "a") && (~ is_unlisted "a") && nz_positive "a" && (~ is_empty "a").
  Definition popped : val := λ: "a",
    if: is_empty "a" then ("a", #kTombstone)
    else if: is_held "a" then (BinOp AndOp "a" (~ #1024), #kDropped)
    else if: nz_positive "a" then (BinOp OrOp "a" #2, #kAdopted)
    else (BinOp OrOp "a" #1, #kDropped).
  Definition let_go_next : val := λ: "a" "owed",
    let: "listed" := has_entry "a" in
    let: "n" := "a" - "owed" - #2 - (if: "listed" then #1024 else #0) in
    if: is_empty "n" then ("n", if: "listed" then #kTombstoneGiven else #kEmpty)
    else if: "listed" then ("n", #kNone)
    else if: nz_positive "n" then ("n", #kList)
    else (BinOp OrOp "n" #1, #kNone).

  (* superblocks.h *)
  Definition begin : val := λ: <>, #(s_owed s) <- #0.
  Definition claim : val := rec: "claim" "n" :=
    if: wants_listing "n" then
      let: "r" := CmpXchg #(s_anchor s) "n" (BinOp AndOp "n" (~ #1)) in
      if: Snd "r" then list #() else "claim" (Fst "r")
    else #().
  Definition settle_empty : val := λ: "now",
    give #();;
    if: is_unlisted "now" then
      if: CAS #(s_anchor s) "now" (BinOp AndOp "now" (~ #1)) then recycle #() else #()
    else #().
  Definition was_freed : val := λ: "j" "mask" "old",
    let: "change" := plus "old" "mask" (full_mask "j") in
    if: "change" = #0 then #()
    else
      let: "now" := FAA #(s_anchor s) "change" + "change" in
      if: is_empty "now" then settle_empty "now" else claim "now".
  Definition free_group : val := λ: "j" "mask", was_freed "j" "mask" (fetch_or (#(s_words s) +ₗ "j") "mask").
  Definition take_bits : val := λ: "j" "mask",
    let: "old" := fetch_and_not (#(s_words s) +ₗ "j") "mask" in
    let: "got" := BinOp AndOp "old" "mask" in
    (if: "got" = #0 then #() else #(s_owed s) <- !#(s_owed s) + minus "old" "got" (full_mask "j"));;
    "got".
  Definition put_bits : val := λ: "j" "mask",
    let: "old" := fetch_or (#(s_words s) +ₗ "j") "mask" in
    #(s_owed s) <- !#(s_owed s) - plus "old" "mask" (full_mask "j").
  Definition let_go_loop : val := rec: "loop" "owed" :=
    let: "seen" := !#(s_anchor s) in
    let: "next" := let_go_next "seen" "owed" in
    if: CAS #(s_anchor s) "seen" (Fst "next") then
      let: "duty" := Snd "next" in
      if: "duty" = #kEmpty then give #();; recycle #()
      else if: "duty" = #kTombstoneGiven then give #()
      else if: "duty" = #kList then list #()
      else #()
    else "loop" "owed".
  Definition let_go : val := λ: <>,
    let: "owed" := !#(s_owed s) in #(s_owed s) <- #0;; let_go_loop "owed".
  Definition adopt : val := rec: "adopt" <> :=   (* by the thread that popped its entry from a list *)
    let: "seen" := !#(s_anchor s) in
    let: "next" := popped "seen" in
    if: Snd "next" = #kTombstone then recycle #();; #false
    else if: Snd "next" = #kDropped then
      if: CAS #(s_anchor s) "seen" (Fst "next") then #false else "adopt" #()
    else
      if: CAS #(s_anchor s) "seen" (Fst "next") then begin #();; #true else "adopt" #().
  Definition take_at : val := λ: <>,             (* by a thread that found it through the page map *)
    let: "seen" := !#(s_anchor s) in
    if: may_take "seen" then
      if: CAS #(s_anchor s) "seen" (BinOp OrOp "seen" #1026) then begin #();; #true else #false
    else #false.
  Definition write_words : val := rec: "write" "j" :=
    if: "j" = #W then #() else (#(s_words s) +ₗ "j") <- full_mask "j";; "write" ("j" + #1).
  Definition birth : val := λ: <>, begin #();; write_words #0;; #(s_anchor s) <- #(born c W).

  Definition sb_inv : iProp Σ := inv N (∃ a : Z, s.(s_anchor) ↦ #a ∗ R a).
  Definition is_sb : iProp Σ := sb_inv ∗ env.
  Definition holder : iProp Σ := ∃ xn xf : Z, holds g xn xf ∗ s.(s_owed) ↦ #(4096 * xn + 4294967296 * xf).

  Local Instance R_tl a : Timeless (R a).
  Proof. by apply superblock_state.R_timeless. Qed.

  Lemma owed_eq (x y : Z) : x = y → s.(s_owed) ↦ #x -∗ s.(s_owed) ↦ #y.
  Proof. intros ->. auto. Qed.
  Lemma eq_int (x y : Z) : bool_decide (#x = #y) = bool_decide (x = y).
  Proof. apply bool_decide_ext. naive_solver. Qed.
  Lemma wp_unlisted (a : Z) Φ : Φ #(unlb a) -∗ WP is_unlisted #a {{ Φ }}.
  Proof. iIntros "H". wp_lam. wp_pures. by rewrite eq_int. Qed.
  Lemma wp_held (a : Z) Φ : Φ #(heldb a) -∗ WP is_held #a {{ Φ }}.
  Proof. iIntros "H". wp_lam. wp_pures. by rewrite eq_int. Qed.
  Lemma wp_entry (a : Z) Φ : Φ #(entb a) -∗ WP has_entry #a {{ Φ }}.
  Proof. iIntros "H". wp_lam. wp_pures. by rewrite eq_int. Qed.
  Lemma wp_empty (a : Z) Φ : Φ #(emptyb c W a) -∗ WP is_empty #a {{ Φ }}.
  Proof. iIntros "H". wp_lam. wp_pures. by rewrite eq_int. Qed.
  Lemma wp_some (a : Z) Φ : Φ #(nzposb a) -∗ WP nz_positive #a {{ Φ }}.
  Proof. iIntros "H". wp_lam. wp_pures. rewrite /nzposb. destruct (bool_decide (0 < _)); wp_pures; done. Qed.

  Lemma wp_full_mask (j : nat) Φ : Φ #(full j) -∗ WP full_mask #j {{ Φ }}.
  Proof.
    iIntros "H". wp_lam. wp_pures. rewrite eq_int /full. case_decide.
    - rewrite bool_decide_true; [by wp_pures|lia].
    - rewrite bool_decide_false; [by wp_pures|lia].
  Qed.
  Lemma wp_plus (o m f : Z) Φ : Φ #(anchor.plus o m f) -∗ WP plus #o #m #f {{ Φ }}.
  Proof.
    iIntros "H". wp_lam. wp_pures. rewrite !eq_int /anchor.plus.
    destruct (bool_decide (Z.lor o m = f)); wp_pures; rewrite eq_int; destruct (bool_decide (o = 0)); by wp_pures.
  Qed.
  Lemma wp_minus (o m f : Z) Φ : Φ #(anchor.minus o m f) -∗ WP minus #o #m #f {{ Φ }}.
  Proof.
    iIntros "H". wp_lam. wp_pures. rewrite !eq_int /anchor.minus.
    destruct (bool_decide (o = f)); wp_pures; rewrite eq_int; destruct (bool_decide (o = m)); by wp_pures.
  Qed.
  Lemma wp_wants_listing (a : Z) Φ : Φ #(anchor.wants_listing a) -∗ WP wants_listing #a {{ Φ }}.
  Proof. iIntros "H". wp_lam. wp_apply wp_unlisted. rewrite /anchor.wants_listing. destruct (unlb a); wp_pures;
  [by wp_apply wp_some|done]. Qed.
  Lemma wp_may_take (a : Z) Φ : Φ #(anchor.may_take c W a) -∗ WP may_take #a {{ Φ }}.
  Proof.
    iIntros "H". wp_lam. wp_apply wp_held. rewrite /anchor.may_take. destruct (heldb a); wp_pures; [done|].
    wp_apply wp_unlisted. destruct (unlb a); wp_pures; [done|]. wp_apply wp_some. destruct (nzposb a); wp_pures; [|done].
    wp_apply wp_empty. wp_pures. done.
  Qed.
  Lemma wp_popped (a : Z) Φ :
    Φ (#(anchor.popped c W a).1, #(anchor.popped c W a).2)%V -∗ WP popped #a {{ Φ }}.
  Proof.
    iIntros "H". wp_lam. wp_apply wp_empty. rewrite /anchor.popped. destruct (emptyb c W a); wp_pures; [done|].
    wp_apply wp_held. destruct (heldb a); wp_pures; [done|]. wp_apply wp_some. destruct (nzposb a); wp_pures; done.
  Qed.
  Lemma wp_let_go_next (a owed : Z) Φ :
    Φ (#(anchor.let_go c W a owed).1, #(anchor.let_go c W a owed).2)%V -∗ WP let_go_next #a #owed {{ Φ }}.
  Proof.
    iIntros "H". wp_lam. wp_pures. wp_apply wp_entry. rewrite /anchor.let_go.
    destruct (entb a); wp_pures; wp_apply wp_empty; destruct (emptyb c W _); wp_pures; try done.
    wp_apply wp_some. destruct (nzposb _); wp_pures; done.
  Qed.

  Lemma claim_spec (n : Z) : {{{ is_sb }}} claim #n {{{ RET #(); True }}}.
  Proof.
    iIntros (Φ) "#[I E] HΦ". iLöb as "IH" forall (n). wp_lam. wp_apply wp_wants_listing.
    destruct (anchor.wants_listing n) eqn:Hw; wp_pures; [|by iApply "HΦ"].
    apply andb_true_iff in Hw as [Hun Hnz]. rewrite clear_U //.
    wp_bind (CmpXchg _ _ _). iInv "I" as (a) ">[Ha HR]". destruct (decide (a = n)) as [->|Hne].
    - wp_cmpxchg_suc. iDestruct (R_claim with "HR") as "[HR He]"; [done..|]. iModIntro. iSplitL "Ha HR"; [iExists _; iFrame|].
      wp_pures. by wp_apply (list_spec with "[$E $He]").
    - wp_cmpxchg_fail. iModIntro. iSplitL "Ha HR"; [iExists _; iFrame|]. wp_pures. by iApply "IH".
  Qed.
  Lemma settle_empty_spec (n : Z) : emptyb c W n = true → {{{ is_sb ∗ span }}} settle_empty #n {{{ RET #(); True }}}.
  Proof.
    iIntros (He Φ) "[#[I E] Hs] HΦ". wp_lam. wp_apply (give_spec with "[$E $Hs]"). iIntros "_". wp_pures. wp_apply wp_unlisted.
    destruct (unlb n) eqn:Hun; wp_pures; [|by iApply "HΦ"]. rewrite clear_U //.
    wp_bind (CmpXchg _ _ _). iInv "I" as (a) ">[Ha HR]". destruct (decide (a = n)) as [->|Hne'].
    - wp_cmpxchg_suc. iDestruct (R_settle with "HR") as "[HR Hc]"; [done..|]. iModIntro. iSplitL "Ha HR"; [iExists _; iFrame|].
      wp_pures. wp_apply (recycle_spec with "[$E $Hc]"). iIntros "_". by iApply "HΦ".
    - wp_cmpxchg_fail. iModIntro. iSplitL "Ha HR"; [iExists _; iFrame|]. wp_pures. by iApply "HΦ".
  Qed.

  Lemma plus_change (F M : gset Z) (o m : Z) j :
    repr o F → repr m M → anchor.plus o m (full j) = change (bool_decide (F = ∅)) (bool_decide (F ∪ M = Full j)).
  Proof.
    intros Ho Hm. rewrite /anchor.plus /change (bool_decide_ext _ _ (repr_eq_0 _ _ Ho)).
    rewrite (bool_decide_ext _ _ (repr_eq _ _ _ _ (repr_lor _ _ _ _ Ho Hm) (Hfull j))). repeat case_bool_decide; done.
  Qed.

  (* Any thread frees any of its blocks of one word, at any time. *)
  Lemma free_group_spec (j : nat) (m : Z) (M : gset Z) :
    (j < W)%nat → repr m M → M ≠ ∅ → M ⊆ Full j →
    {{{ is_sb ∗ blocks j M ∗ ticket }}} free_group #j #m {{{ RET #(); ticket }}}.
  Proof.
    iIntros (Hj Hm Hne Hsub Φ) "(#[I E] & HM & Ht) HΦ". wp_lam. wp_pures. wp_bind (fetch_or _ _).
    awp_apply fetch_or_spec without "HΦ". iInv "I" as (a) ">[Ha HR]".
    iDestruct (R_free with "HR HM Ht") as (o F) "(Ho & [%Hr %Hd] & HC)"; [done..|].
    iAaccIntro with "Ho".
    { iIntros "Ho". iDestruct "HC" as "[HC _]". iDestruct ("HC" with "Ho") as "(HR & $ & $)". iModIntro. iExists _. iFrame. }
    iIntros "Ho". iDestruct "HC" as "[_ HC]". iMod ("HC" with "Ho") as "[HR Hk]". iModIntro.
    iSplitL "Ha HR"; [iExists _; iFrame|]. iIntros "HΦ". wp_lam. wp_pures. wp_apply wp_full_mask. wp_apply wp_plus.
    rewrite (plus_change F M) //. set (bn := bool_decide (F = ∅)). set (bf := bool_decide (F ∪ M = Full j)).
    wp_pures. rewrite eq_int. destruct (bn || bf) eqn:Hb.
    2:{ apply orb_false_iff in Hb as [-> ->]. wp_pures. iApply "HΦ". iDestruct "Hk" as "[_ $]". done. }
    rewrite bool_decide_false; [|rewrite /change; destruct bn, bf; simpl; (done || lia)]. wp_pures.
    wp_bind (FAA _ _). iInv "I" as (a') ">[Ha HR]". wp_faa.
    iMod (R_faa with "HR Hk") as "(HR & Ht & Hs)"; [done..|]. iModIntro. iSplitL "Ha HR"; [iExists _; iFrame|].
    wp_pures. wp_apply wp_empty. destruct (emptyb c W _) eqn:He.
    - wp_pures. wp_apply (settle_empty_spec with "[$I $E $Hs]"); [done|]. iIntros "_". by iApply "HΦ".
    - wp_pures. wp_apply (claim_spec with "[$I $E]"). iIntros "_". by iApply "HΦ".
  Qed.

  (* The holder takes whatever of `m` is free. *)
  Lemma take_bits_spec (j : nat) (m : Z) (M : gset Z) :
    (j < W)%nat → repr m M →
    {{{ is_sb ∗ holder }}} take_bits #j #m
    {{{ (got : Z) G, RET #got; ⌜repr got G ∧ G ⊆ M ∧ G ⊆ Full j⌝ ∗ holder ∗ blocks j G }}}.
  Proof.
    iIntros (Hj Hm Φ) "[#[I E] (%xn & %xf & Hh & Hz)] HΦ". wp_lam. wp_pures.
    awp_apply fetch_and_not_spec without "HΦ Hz". iInv "I" as (a) ">[Ha HR]".
    iDestruct (R_take with "HR Hh") as (o F) "(Ho & [%Hr %Hs] & HC)"; [done..|].
    iAaccIntro with "Ho".
    { iIntros "Ho". iDestruct "HC" as "[HC _]". iDestruct ("HC" with "Ho") as "[HR $]". iModIntro. iExists _. iFrame. }
    iIntros "Ho". iDestruct "HC" as "[_ HC]". iMod ("HC" with "Ho") as "(HR & Hb & Hh)". iModIntro.
    iSplitL "Ha HR"; [iExists _; iFrame|]. iIntros "[HΦ Hz]". wp_pures. rewrite eq_int.
    pose proof (repr_land _ _ _ _ Hr Hm) as Hg. rewrite (bool_decide_ext _ _ (repr_eq_0 _ _ Hg)).
    destruct (decide (F ∩ M = ∅)) as [He|He].
    - rewrite (bool_decide_true (F ∩ M = ∅)) //. rewrite !(bool_decide_false (_ ∧ _)); [|naive_solver..].
      wp_pures. iApply ("HΦ" $! _ (F ∩ M)). iFrame "Hb". iSplitR; [iPureIntro; split_and!; [done|set_solver..]|].
      rewrite !Z.add_0_r. iExists xn, xf. by iFrame.
    - rewrite (bool_decide_false (F ∩ M = ∅)) //. wp_pures. wp_apply wp_full_mask. wp_apply wp_minus.
      rewrite /anchor.minus (bool_decide_ext _ _ (repr_eq _ _ _ _ Hr Hg)) (bool_decide_ext _ _ (repr_eq _ _ _ _ Hr (Hfull j))).
      rewrite (bool_decide_ext (F ∩ M ≠ ∅ ∧ F = Full j) (F = Full j)); [|naive_solver].
      rewrite (bool_decide_ext (F ∩ M ≠ ∅ ∧ F ∩ M = F) (F = F ∩ M)); [|split; [intros [_ Hx]; exact (eq_sym Hx)|intros Hx; split;
      [done|exact (eq_sym Hx)]]].
      wp_load. wp_pures. wp_store. try wp_pures. iApply ("HΦ" $! _ (F ∩ M)). iFrame "Hb".
      try iModIntro. iSplitR; [iPureIntro; split_and!; [done|set_solver..]|].
      iExists _, _. iFrame "Hh". iApply (owed_eq with "Hz"). repeat case_bool_decide; simpl; lia.
  Qed.

  (* The holder puts back blocks that never left its hands (purge). *)
  Lemma put_bits_spec (j : nat) (m : Z) (M : gset Z) :
    (j < W)%nat → repr m M → M ≠ ∅ → M ⊆ Full j →
    {{{ is_sb ∗ holder ∗ blocks j M }}} put_bits #j #m {{{ RET #(); holder }}}.
  Proof.
    iIntros (Hj Hm Hne Hsub Φ) "(#[I E] & (%xn & %xf & Hh & Hz) & HM) HΦ". wp_lam. wp_pures. wp_bind (fetch_or _ _).
    awp_apply fetch_or_spec without "HΦ Hz". iInv "I" as (a) ">[Ha HR]".
    iDestruct (R_put with "HR Hh HM") as (o F) "(Ho & [%Hr %Hd] & HC)"; [done..|].
    iAaccIntro with "Ho".
    { iIntros "Ho". iDestruct "HC" as "[HC _]". iDestruct ("HC" with "Ho") as "(HR & $ & $)". iModIntro. iExists _. iFrame. }
    iIntros "Ho". iDestruct "HC" as "[_ HC]". iMod ("HC" with "Ho") as "[HR Hh]". iModIntro.
    iSplitL "Ha HR"; [iExists _; iFrame|]. iIntros "[HΦ Hz]". wp_pures. wp_apply wp_full_mask. wp_apply wp_plus.
    rewrite (plus_change F M) //. wp_load. wp_pures. wp_store. iApply "HΦ". try iModIntro. iExists _, _. iFrame "Hh".
    iApply (owed_eq with "Hz"). rewrite /change. lia.
  Qed.

  (* The holder's last step: span, descriptor or entry go to the module that wants it. *)
  Lemma let_go_spec : {{{ is_sb ∗ holder }}} let_go #() {{{ RET #(); True }}}.
  Proof.
    iIntros (Φ) "[#[I E] (%xn & %xf & Hh & Hz)] HΦ". wp_lam. wp_load. wp_pures. wp_store.
    remember (4096 * xn + 4294967296 * xf) as owed eqn:Howed. iLöb as "IH". wp_lam.
    wp_bind (! _)%E. iInv "I" as (a) ">[Ha HR]". wp_load. iModIntro. iSplitL "Ha HR"; [iExists _; iFrame|].
    wp_pures. wp_apply wp_let_go_next. wp_pures. set (n := a - owed - 2 - (if entb a then 1024 else 0)).
    assert (n = a - (4096 * xn + 4294967296 * xf) - 2 - (if entb a then 1024 else 0)) as Hn by (by rewrite /n Howed).
    wp_bind (CmpXchg _ _ _). iInv "I" as (a') ">[Ha HR]". destruct (decide (a' = a)) as [->|Hne].
    2:{ wp_cmpxchg_fail. iModIntro. iSplitL "Ha HR"; [by iExists _; iFrame|]. wp_pures. by iApply ("IH" with "Hh Hz HΦ"). }
    iAssert ⌜unlb n = false⌝%I as %Hun. { iApply (R_let_go_unl with "HR Hh"); done. }
    wp_cmpxchg_suc. iMod (R_let_go _ _ _ _ _ _ _ HW HWT HT Hc HFull _ _ _ _ _ Hn with "HR Hh [Hz]") as "HR"; [by iExists _|].
    rewrite /anchor.let_go -/n. destruct (emptyb c W n) eqn:He; [destruct (entb a) eqn:Hl|destruct (entb a) eqn:Hl;
    [|destruct (nzposb n) eqn:Hs]]; simpl.
    - iDestruct "HR" as "(HR & Hs & _)". iModIntro. iSplitL "Ha HR"; [iExists _; iFrame|]. wp_pures.
      wp_apply (give_spec with "[$E $Hs]"). iIntros "_". by iApply "HΦ".
    - iDestruct "HR" as "(HR & Hs & Hc)". iModIntro. iSplitL "Ha HR"; [iExists _; iFrame|]. wp_pures.
      wp_apply (give_spec with "[$E $Hs]"). iIntros "_". wp_pures. wp_apply (recycle_spec with "[$E $Hc]"). iIntros "_".
      by iApply "HΦ".
    - iModIntro. iSplitL "Ha HR"; [iExists _; iFrame|]. wp_pures. by iApply "HΦ".
    - iDestruct "HR" as "[HR He]". iModIntro. iSplitL "Ha HR"; [iExists _; iFrame|]. wp_pures.
      wp_apply (list_spec with "[$E $He]"). iIntros "_". by iApply "HΦ".
    - rewrite set_U //. iModIntro. iSplitL "Ha HR"; [iExists _; iFrame|]. wp_pures. by iApply "HΦ".
  Qed.

  (* The thread that popped its entry from a list. *)
  Lemma adopt_spec : {{{ is_sb ∗ entry }}} adopt #() {{{ (b : bool), RET #b; if b then holder else True }}}.
  Proof.
    iIntros (Φ) "[#[I E] He] HΦ". iLöb as "IH". wp_lam. wp_bind (! _)%E. iInv "I" as (a) ">[Ha HR]". wp_load.
    destruct (emptyb c W a) eqn:Hemp.
    { iDestruct (R_tombstone with "HR He") as "[HR Hc]"; [done..|]. iModIntro. iSplitL "Ha HR"; [iExists _; iFrame|].
      wp_pures. wp_apply wp_popped. rewrite /anchor.popped Hemp. wp_pures. wp_apply (recycle_spec with "[$E $Hc]"). iIntros "_".
      wp_pures.
      by iApply ("HΦ" $! false). }
    iDestruct (R_entry_unl with "HR He") as %Hun; [done..|].
    iModIntro. iSplitL "Ha HR"; [iExists _; iFrame|]. wp_pures. wp_apply wp_popped. rewrite /anchor.popped Hemp.
    destruct (heldb a) eqn:Hheld; [|destruct (nzposb a) eqn:Hnz]; wp_pures;
      wp_bind (CmpXchg _ _ _); iInv "I" as (a') ">[Ha HR]"; (destruct (decide (a' = a)) as [->|Hne];
      [|wp_cmpxchg_fail; iModIntro; iSplitL "Ha HR"; [by iExists _; iFrame|]; wp_pures; iApply ("IH" with "He HΦ")]).
    - iDestruct (R_entry_ent with "HR He") as %Hent; [done..|].
      wp_cmpxchg_suc. iDestruct (R_drop with "HR He") as "HR"; [done..|]. rewrite clear_ENTRY //.
      iModIntro. iSplitL "Ha HR"; [iExists _; iFrame|]. wp_pures. by iApply ("HΦ" $! false).
    - wp_cmpxchg_suc. iMod (R_adopt with "HR He") as "(HR & Hh & (%z & Hz))"; [done..|]. rewrite set_HELD //. iModIntro.
      iSplitL "Ha HR"; [iExists _; iFrame|]. wp_pures. wp_lam. wp_store. try wp_pures. iApply ("HΦ" $! true). try iModIntro.
      iExists 0, 0. by iFrame.
    - wp_cmpxchg_suc. iDestruct (R_unlist with "HR He") as "HR"; [done..|]. rewrite set_U //. iModIntro.
      iSplitL "Ha HR"; [iExists _; iFrame|]. wp_pures. by iApply ("HΦ" $! false).
  Qed.

  (* A thread that found it through the page map, and owns nothing of it. *)
  Lemma take_at_spec : {{{ is_sb }}} take_at #() {{{ (b : bool), RET #b; if b then holder else True }}}.
  Proof.
    iIntros (Φ) "#[I E] HΦ". wp_lam. wp_bind (! _)%E. iInv "I" as (a) ">[Ha HR]". wp_load.
    iDestruct (R_free_ent with "HR") as %Hent; [done..|].
    iModIntro. iSplitL "Ha HR"; [iExists _; iFrame|]. wp_pures.
    wp_apply wp_may_take. destruct (anchor.may_take c W a) eqn:Hm; wp_pures; [|by iApply ("HΦ" $! false)].
    rewrite /anchor.may_take !andb_true_iff !negb_true_iff in Hm. destruct Hm as [[[Hheld Hun] Hnz] Hemp].
    wp_bind (CmpXchg _ _ _); iInv "I" as (a') ">[Ha HR]"; destruct (decide (a' = a)) as [->|Hne].
    - wp_cmpxchg_suc. iMod (R_take_at with "HR") as "(HR & Hh & (%z & Hz))"; [done..|].
      rewrite set_HELD_ENTRY; [|done|by apply Hent]. iModIntro.
      iSplitL "Ha HR"; [iExists _; iFrame|]. wp_pures. wp_lam. wp_store. try wp_pures. iApply ("HΦ" $! true). try iModIntro.
      iExists 0, 0. by iFrame.
    - wp_cmpxchg_fail. iModIntro. iSplitL "Ha HR"; [iExists _; iFrame|]. wp_pures. by iApply ("HΦ" $! false).
  Qed.

  Lemma write_words_spec (j : nat) :
    (j ≤ W)%nat →
    {{{ is_sb ∗ ghost_var (g_owed g) (1/2) (None : option (Z * Z)) ∗ s_owed s ↦ #0 }}} write_words #j
    {{{ RET #(); ghost_var (g_owed g) (1/2) (None : option (Z * Z)) ∗ s_owed s ↦ #0 }}}.
  Proof.
    iIntros (Hj Φ) "(#[I E] & Hi & Hz) HΦ". iLöb as "IH" forall (j Hj). wp_lam. wp_pures. rewrite eq_int.
    case_bool_decide as He; wp_pures; [iApply "HΦ"; by iFrame|]. wp_apply wp_full_mask. wp_pures.
    wp_bind (_ <- _)%E. iInv "I" as (a) ">[Ha HR]".
    assert (j < W)%nat as Hlt by lia.
    iDestruct (R_rewrite with "HR Hi Hz") as (o) "(Hl & %Hr & HC)"; [done|done|done|done|done|exact Hlt|].
    wp_store. rewrite (repr_inj _ _ _ Hr (Hfull j)). iDestruct ("HC" with "Hl") as "(HR & Hi & Hz)".
    iModIntro. iSplitL "Ha HR"; [iExists _; iFrame|]. wp_pures. replace (j + 1) with (Z.of_nat (S j)) by lia.
    iApply ("IH" with "[] Hi Hz HΦ"). iPureIntro. lia.
  Qed.
  (* The next life. *)
  Lemma birth_spec : {{{ is_sb ∗ control ∗ span }}} birth #() {{{ RET #(); holder }}}.
  Proof.
    iIntros (Φ) "(#[I E] & [[Hi (%z & Hz)] Hln] & Hs) HΦ". wp_lam. wp_lam. wp_store. wp_pures.
    wp_apply (write_words_spec 0 with "[$I $E $Hi $Hz]"); [lia|]. iIntros "[Hi Hz]". wp_pures.
    iInv "I" as (a) ">[Ha HR]". wp_store. iMod (R_born with "HR Hi Hz Hln Hs") as "(HR & Hh & Hz)"; [done..|].
    iModIntro. iSplitL "Ha HR"; [iExists _; iFrame|]. iApply "HΦ". iExists 0, 0. iFrame.
  Qed.
End prog.
