(* SPDX-License-Identifier: MIT *)
(* closed.v: programs that use the heap and nothing else, from the first step on: no premise is left.

   The state in which they start is what a library's data and a reserved range are: arrays of anchors, words and links, two stack heads,
   the chunk's word, and memory (data). The heap can be made of it (heap_init); so no program that keeps to malloc_spec and
   free_spec is ever stuck, in any schedule (heap_is_safe);
   for example threads that allocate, write, read back and free for ever, each
   stuck at the sight of another thread's value (workers_are_safe) *)
From stdpp Require Import gmap.
From iris.algebra Require Import gset auth excl numbers.
From iris.base_logic.lib Require Import gen_heap ghost_var ghost_map mono_nat invariants.
From freeway Require Import bits anchor superblock_state superblock superblock_init tagged_stack pages heap.
From iris.heap_lang Require Import adequacy.
From iris.heap_lang Require Import lang proofmode notation.
From iris.prelude Require Import options.
Open Scope Z_scope.

(* Arrays of numbers that begin at an address. *)
Section arrays.
  Context `{!heapGS Σ}.
  Lemma heap_array_mapsto (l : loc) (vs : list val) :
    ([∗ map] l' ↦ ov ∈ heap_array l vs, gen_heap.mapsto l' (DfracOwn 1) ov) -∗ [∗ list] i ↦ v ∈ vs, (l +ₗ i) ↦ v.
  Proof.
    iIntros "H". iInduction vs as [|v vs] "IH" forall (l); simpl; [done|].
    rewrite big_opM_union; last first.
    { apply map_disjoint_spec=> l' v1 v2 /lookup_singleton_Some [-> _]. intros (j & w & ? & Hjl & _)%heap_array_lookup.
      rewrite loc_add_assoc -{1}[l']loc_add_0 in Hjl. simplify_eq; lia. }
    rewrite loc_add_0 big_opM_singleton. iDestruct "H" as "[$ H]". iSpecialize ("IH" with "H").
    iApply (big_sepL_mono with "IH"). iIntros (k x _) "H". rewrite loc_add_assoc. by replace (1 + k) with (Z.of_nat (S k)) by lia.
  Qed.
  Lemma array_seq (l : loc) (f : nat → val) n :
    ([∗ list] i ↦ v ∈ f <$> seq 0 n, (l +ₗ i) ↦ v) ⊢ [∗ list] i ∈ seq 0 n, (l +ₗ Z.of_nat i) ↦ f i.
  Proof. rewrite big_sepL_fmap. apply big_sepL_mono. by intros k y [-> _]%lookup_seq. Qed.
  Lemma rows (Φ : nat → iProp Σ) D W :
    ([∗ list] n ∈ seq 0 (D * W), Φ n) ⊢ [∗ list] d ∈ seq 0 D, [∗ list] j ∈ seq 0 W, Φ (d * W + j)%nat.
  Proof.
    induction D as [|D IH]; [done|]. rewrite Nat.mul_succ_l seq_app seq_S !big_sepL_app IH /= right_id.
    apply bi.sep_mono_r. assert (seq (D * W) W = Nat.add (D * W)%nat <$> seq 0 W) as -> by (by rewrite fmap_add_seq Nat.add_0_r).
    by rewrite big_sepL_fmap.
  Qed.
  Lemma from_one (Φ : nat → iProp Σ) K : ([∗ list] d ∈ seq 0 (S K), Φ d) ⊢ [∗ list] d ∈ seq 1 K, Φ d.
  Proof. simpl. by iIntros "[_ $]". Qed.
  Lemma numbers (Φ : Z → iProp Σ) K :
    ([∗ list] d ∈ seq 1 K, Φ (Z.of_nat d)) ⊢ [∗ set] z ∈ (list_to_set (seqZ 1 K) : gset Z), Φ z.
  Proof.
    rewrite big_sepS_list_to_set; [|apply NoDup_seqZ]. rewrite /seqZ big_sepL_fmap Nat2Z.id -fmap_S_seq big_sepL_fmap.
    apply big_sepL_mono. intros k y _. by replace (Z.of_nat (S y)) with (Z.of_nat y + 1) by lia.
  Qed.
  Lemma choose_names {A : Type} `{!Inhabited A} (Φ : nat → A → iProp Σ) l :
    NoDup l → ([∗ list] d ∈ l, ∃ g, Φ d g) ⊢ ∃ gs : nat → A, [∗ list] d ∈ l, Φ d (gs d).
  Proof.
    induction l as [|d l IH]; intros Hl; simpl; [iIntros "_"; by iExists (λ _, inhabitant)|].
    apply NoDup_cons in Hl as [Hd Hl]. rewrite IH //. iIntros "[(%g & Hg) (%gs & H)]".
    iExists (λ e, if decide (e = d) then g else gs e). rewrite decide_True //. iFrame "Hg".
    iApply (big_sepL_mono with "H"). iIntros (k e He) "H". rewrite decide_False //.
    intros ->. apply Hd. by eapply elem_of_list_lookup_2.
  Qed.
End arrays.

(* Stacks as they are at first. *)
Fixpoint down_from (k : nat) : list Z := match k with O => [] | S i => Z.of_nat (S i) :: down_from i end.
Section stacks.
  Context `{!heapGS Σ, !mono_natG Σ, !ghost_mapG Σ nat (list Z)} (N : namespace) (h l : loc) (K : nat).

  Lemma top_down k : tagged_stack.top (down_from k) = k.
  Proof. by destruct k. Qed.
  Lemma chain_down (P : Z → iProp Σ) k :
    (k ≤ K)%nat →
    ([∗ list] d ∈ seq 1 k, (l +ₗ Z.of_nat d) ↦{#1/2} #(Z.of_nat d - 1) ∗ P d) ⊢ tagged_stack.chain l K P (down_from k).
  Proof.
    induction k as [|k IH]; intros Hk; [by iIntros "_"|]. rewrite seq_S big_sepL_app IH /=; [|lia]. rewrite right_id.
    iIntros "[$ [Hl HP]]". iSplit; [iPureIntro; lia|]. rewrite top_down. replace (S k - 1) with (Z.of_nat k) by lia. iFrame.
  Qed.
  Lemma stack_alloc (P : Z → iProp Σ) xs E :
    are_links N l K -∗ h ↦ #(tagged_stack.top xs) -∗ tagged_stack.chain l K P xs ={E}=∗ ∃ γt γm, is_stack N h l K γt γm P.
  Proof.
    iIntros "#L Hh Hc". iMod (mono_nat_own_alloc 0) as (γt) "[Ht _]".
    iMod (ghost_map_alloc_empty (K := nat) (V := list Z)) as (γm) "Hg".
    iMod (ghost_map_insert_persist 0%nat xs with "Hg") as "[Hg #Hs]"; [done|].
    iExists γt, γm. iFrame "L". iApply inv_alloc. iNext. iExists 0%nat, xs, _. rewrite Z.mul_0_r Z.add_0_r. iFrame "∗#".
    iPureIntro. intros k Hk. rewrite lookup_insert_ne; [done|lia].
  Qed.
End stacks.

Global Instance names_inhabited : Inhabited names := populate {| g_tok := 1%positive; g_entry := 1%positive; g_pend := 1%positive;
  g_tick := 1%positive; g_owed := 1%positive |}.
Section init.
  Context `{!heapGS Σ, !sbG Σ, !mono_natG Σ, !ghost_mapG Σ nat (list Z)}.
  Context (c : Z) (W T K : nat) (Ones Last : gset Z) (ones last : Z) (p : places) (N : namespace).
  Context (HOnes : Ones ≠ ∅) (HLast : Last ≠ ∅) (Hones : repr ones Ones) (Hlast : repr last Last).
  Notation Full := (superblock.Full W Ones Last).
  Context (HFull64 : ∀ j i, i ∈ Full j → 0 ≤ i < 64).

  Lemma memory_span d :
    ([∗ list] j ∈ seq 0 W, [∗ list] i ∈ seq 0 64, (p.(p_memory) +ₗ ((d * W + j) * 64 + i)%nat) ↦ #0) ⊢ spand W Ones Last p d.
  Proof using HFull64.
    rewrite /spand /span /all_full big_sepL_fmap. apply big_sepL_mono. intros k j [-> _]%lookup_seq.
    transitivity ([∗ set] i ∈ (list_to_set (Z.of_nat <$> seq 0 64) : gset Z), memd W p d (0 + k) i)%I.
    - rewrite big_sepS_list_to_set; [|apply NoDup_fmap_2; [apply _|apply NoDup_seq]]. rewrite big_sepL_fmap.
      apply big_sepL_mono. intros n i _. iIntros "H". iExists #0. rewrite /index.
      by replace (((d * W + (0 + k)) * 64 + i)%nat : Z) with ((d * W + (0 + k))%nat * 64 + i) by lia.
    - apply: big_sepS_subseteq. intros i Hi%HFull64. apply elem_of_list_to_set, elem_of_list_fmap.
      exists (Z.to_nat i). split; [lia|]. apply elem_of_seq. lia.
  Qed.

  Lemma heap_init :
    ([∗ list] d ∈ seq 0 (S K), (p.(p_anchors) +ₗ Z.of_nat d) ↦ #(empty_state c W)) -∗
    ([∗ list] d ∈ seq 0 (S K), (p.(p_oweds) +ₗ Z.of_nat d) ↦ #0) -∗
    ([∗ list] d ∈ seq 0 (S K), (p.(p_links) +ₗ Z.of_nat d) ↦ #(Z.of_nat d - 1)) -∗
    ([∗ list] n ∈ seq 0 (S K * W), (p.(p_words) +ₗ Z.of_nat n) ↦ #(full W ones last (n mod W))) -∗
    ([∗ list] n ∈ seq 0 (S K * W * 64), (p.(p_memory) +ₗ Z.of_nat n) ↦ #0) -∗
    p.(p_list) ↦ #0 -∗ p.(p_pool) ↦ #K -∗ p.(p_used) ↦ #0 ={⊤}=∗
    ∃ gs γt1 γm1 γt2 γm2, is_heap c W T K Ones Last p N gs γt1 γm1 γt2 γm2 ∗ [∗ list] _ ∈ seq 0 T, tickets K gs.
  Proof using All.
    iIntros "Ha Ho Hl Hw Hm H1 H2 Hu".
    rewrite (from_one (λ d, _ ↦ #(empty_state c W))%I) (from_one (λ d, (p_oweds p +ₗ Z.of_nat d) ↦ #0)%I).
    rewrite (from_one (λ d, _ ↦ #(Z.of_nat d - 1))%I).
    iEval (rewrite rows from_one) in "Hw". iEval (rewrite rows rows from_one) in "Hm".
    (* The descriptors. *)
    set (Φ := (λ (d : nat) (g : names),
      superblock.sb_inv c W T Ones Last g (sbd W p d) (N .@ "sb") (memd W p d) (linkd p d) ∗ idle g (sbd W p d) ∗
      [∗ list] _ ∈ seq 0 T, ticket g)%I).
    iAssert (|={⊤}=> [∗ list] d ∈ seq 1 K, ∃ g, Φ d g)%I with "[Ha Ho Hw]" as ">Hd".
    { iApply big_sepL_fupd.
      iCombine "Ha Ho" as "H". rewrite -big_sepL_sep. iCombine "H Hw" as "H". rewrite -big_sepL_sep.
      iApply (big_sepL_mono with "H"). iIntros (k d Hd) "[[Ha Ho] Hw]".
      iApply (sb_init c W T Ones Last ones last (sbd W p d) (N .@ "sb") (memd W p d) (linkd p d) with "Ha Ho"); [done..|].
      iApply (big_sepL_mono with "Hw"). iIntros (j j' [-> Hj]%lookup_seq) "Hw". rewrite /= loc_add_assoc.
      rewrite Nat.add_comm Nat.mod_add; [|lia]. rewrite Nat.mod_small //. by rewrite Nat2Z.inj_add Z.add_comm. }
    iDestruct (choose_names Φ with "Hd") as (gs) "Hd"; [apply NoDup_seq|]. rewrite /Φ.
    iEval (rewrite big_sepL_sep) in "Hd". iDestruct "Hd" as "[#Hsb Hd]".
    iEval (rewrite big_sepL_sep) in "Hd". iDestruct "Hd" as "[Hidle Htick]".
    (* The links: half of each for the stacks' invariant. *)
    iAssert (([∗ list] d ∈ seq 1 K, (p_links p +ₗ Z.of_nat d) ↦{#1/2} #(Z.of_nat d - 1)) ∗
             ([∗ list] d ∈ seq 1 K, (p_links p +ₗ Z.of_nat d) ↦{#1/2} #(Z.of_nat d - 1)))%I with "[Hl]" as "[Hl Hl']".
    { rewrite -big_sepL_sep. iApply (big_sepL_mono with "Hl"). iIntros (k d _) "[$ $]". }
    iMod (inv_alloc (N .@ "stacks" .@ "links") _ (links (p_links p) K) with "[Hl]") as "#L".
    { iNext. rewrite /links. iApply numbers. iApply (big_sepL_mono with "Hl"). iIntros (k d [-> Hd]%lookup_seq) "H".
      iExists _. iFrame "H". iPureIntro. lia. }
    iMod (stack_alloc (N .@ "stacks") (p_list p) (p_links p) K (listed gs) [] with "L H1 []") as (γt1 γm1) "#S1"; [done|].
    iMod (stack_alloc (N .@ "stacks") (p_pool p) (p_links p) K (pooled W p gs) (down_from K) with "L [H2] [Hl' Hidle]")
      as (γt2 γm2) "#S2"; [by rewrite top_down| |].
    { iApply chain_down; [done|]. iCombine "Hl' Hidle" as "H". iEval (rewrite -big_sepL_sep) in "H".
      iApply (big_sepL_mono with "H").
      iIntros (k d _) "[$ H]". rewrite /pooled Nat2Z.id. done. }
    iMod (inv_alloc (N .@ "pages") _ (pages_inv (p_used p) (All K) (λ z, spand W Ones Last p (Z.to_nat z))) with "[Hu Hm]") as "#P".
    { iNext. iExists 0, ∅. iFrame "Hu". iSplit; [iPureIntro; apply repr_0|]. rewrite difference_empty_L /frames /All.
      iApply numbers. iApply (big_sepL_mono with "Hm"). iIntros (k d _) "H". rewrite Nat2Z.id. by iApply memory_span. }
    iModIntro. iExists gs, γt1, γm1, γt2, γm2. iSplitR "Htick".
    - rewrite /is_heap /env. iFrame "S1 S2 P". iApply (big_sepL_impl with "Hsb"). iIntros "!>" (k d _) "#H". iFrame "H S1 S2 P".
    - rewrite /tickets big_sepL_sepL. done.
  Qed.
End init.

(* Adequacy from a state that has an array. *)
Lemma adequacy_of_array Σ `{!heapGpreS Σ} e l (vs : list val) :
  (∀ `{!heapGS Σ}, ([∗ list] i ↦ v ∈ vs, (l +ₗ i) ↦ v) ={⊤}=∗ WP e {{ _, True }}) →
  adequate NotStuck e {| heap := heap_array l vs; used_proph_id := ∅ |} (λ _ _, True).
Proof.
  intros Hwp. apply adequate_alt; intros t2 σ2 [n [κs ?]]%erased_steps_nsteps.
  eapply (wp_strong_adequacy Σ _); [|done]. iIntros (Hinv).
  iMod (gen_heap_init (heap_array l vs)) as (?) "(Hh & Hpts & _)".
  iMod (inv_heap_init loc (option val)) as (?) ">Hi".
  iMod (proph_map_init κs ∅) as (?) "Hp".
  iMod (mono_nat_own_alloc) as (γ) "[Hsteps _]".
  iMod (Hwp (HeapGS _ _ _ _ _ _ _ _) with "[Hpts]") as "Hwp"; [by iApply heap_array_mapsto|].
  iModIntro.
  iExists (λ σ ns κs nt, (gen_heap_interp σ.(heap) ∗ proph_map_interp κs σ.(used_proph_id) ∗ mono_nat_auth_own γ 1 ns))%I.
  iExists [(λ v, True%I)], (λ _, True)%I, _ => /=. iFrame. iIntros (es' t2' -> ? ?) "_ H _".
  iApply fupd_mask_intro_discard; [done|]. iSplit; [|done].
  iDestruct (big_sepL2_cons_inv_r with "H") as (e' ? ->) "[Hwp H]". iDestruct (big_sepL2_nil_inv_r with "H") as %->. done.
Qed.

(* The data of a heap of K superblocks of class c, whose last word has b blocks. *)
Definition ones : Z := Z.ones 64.
Definition bits_below (b : Z) : gset Z := list_to_set (seqZ 0 b).
Definition data (c : Z) (W K : nat) (b : Z) : list val :=
  ((λ _, #(empty_state c W)) <$> seq 0 (S K)) ++ ((λ _, #0) <$> seq 0 (S K)) ++ ((λ d : nat, #(Z.of_nat d - 1)) <$> seq 0 (S K)) ++
  ((λ n, #(full W ones (Z.ones b) (n mod W))) <$> seq 0 (S K * W)) ++ ((λ _, #0) <$> seq 0 (S K * W * 64)) ++ [ #0; #K; #0 ].
Definition places_at (l : loc) (W K : nat) : places :=
  let oweds := l +ₗ S K in let links := oweds +ₗ S K in let words := links +ₗ S K in
  let memory := words +ₗ (S K * W)%nat in let heads := memory +ₗ (S K * W * 64)%nat in
  {| p_anchors := l; p_oweds := oweds; p_links := links; p_words := words; p_memory := memory;
     p_list := heads +ₗ 0; p_pool := heads +ₗ 1; p_used := heads +ₗ 2 |}.
Definition start (l : loc) (c : Z) (W K : nat) (b : Z) : state := {| heap := heap_array l (data c W K b); used_proph_id := ∅ |}.

Lemma repr_below b : 0 ≤ b → repr (Z.ones b) (bits_below b).
Proof.
  intros Hb i. apply eq_true_iff_eq. rewrite bool_decide_eq_true /bits_below elem_of_list_to_set elem_of_seqZ Z.testbit_ones //.
  rewrite andb_true_iff Z.leb_le Z.ltb_lt. lia.
Qed.
Lemma below_nonempty b : 0 < b → bits_below b ≠ ∅.
Proof. intros Hb. assert (0 ∈ bits_below b); [|set_solver]. apply elem_of_list_to_set, elem_of_seqZ. lia. Qed.

Definition safeΣ : gFunctors := #[heapΣ; GFunctor (gset_disjR (nat * Z)); GFunctor (exclR unitO);
  GFunctor (authR (prodUR natUR natUR)); ghost_varΣ (option (Z * Z)); ghost_mapΣ nat (list Z)].
Global Instance subG_sbG {Σ} : subG safeΣ Σ → sbG Σ.
Proof. solve_inG. Qed.
Global Instance subG_mapG {Σ} : subG safeΣ Σ → ghost_mapG Σ nat (list Z).
Proof. solve_inG. Qed.
Global Instance subG_heapG {Σ} : subG safeΣ Σ → heapGpreS Σ.
Proof. solve_inG. Qed.

Section safe.
  Context (l : loc) (c : Z) (W T K : nat) (b : Z).
  Context (HW : (0 < W)%nat) (HWT : Z.of_nat W < 262144) (HT : Z.of_nat T < 262144) (Hc : 0 ≤ c < 256).
  Context (HK : Z.of_nat K < B) (Hb : 0 < b ≤ 64).
  Notation p := (places_at l W K).
  Definition the_malloc : val := heap.malloc c W K ones (Z.ones b) p.
  Definition the_free : val := heap.free c W K ones (Z.ones b) p.

  (* What a program may know of the heap: these four, and T tickets for its threads. *)
  Theorem heap_is_safe (client : expr) :
    (∀ `{!heapGS safeΣ} (block : Z → iProp safeΣ) (ticket : iProp safeΣ),
      (∀ n, block n -∗ ∃ v, (p_memory p +ₗ n) ↦ v ∗ (∀ v', (p_memory p +ₗ n) ↦ v' -∗ block n)) →
      ({{{ True }}} the_malloc #() {{{ (n : Z), RET #n; if decide (n = 0) then True else block n }}})%I -∗
      (∀ n : Z, {{{ block n ∗ ticket }}} the_free #n {{{ RET #(); ticket }}})%I -∗
      ([∗ list] _ ∈ seq 0 T, ticket) -∗ WP client {{ _, True }}) →
    adequate NotStuck client (start l c W K b) (λ _ _, True).
  Proof using All.
    intros Hclient. apply (adequacy_of_array safeΣ). intros Hheap. iIntros "H". rewrite /data.
    iDestruct (array_app with "H") as "[Ha H]". iDestruct (array_app with "H") as "[Ho H]".
    iDestruct (array_app with "H") as "[Hl H]". iDestruct (array_app with "H") as "[Hw H]".
    iDestruct (array_app with "H") as "[Hm H]". rewrite !fmap_length !seq_length.
    rewrite /array !array_seq /=. iDestruct "H" as "(H1 & H2 & Hu & _)".
    assert (∀ j i, i ∈ superblock.Full W (bits_below 64) (bits_below b) j → 0 ≤ i < 64) as HFull64.
    { intros j i. rewrite /superblock.Full. case_decide; intros Hi%elem_of_list_to_set%elem_of_seqZ; lia. }
    assert (bits_below 64 ≠ ∅) as HO by (by apply below_nonempty). assert (bits_below b ≠ ∅) as HL by (apply below_nonempty; lia).
    assert (repr ones (bits_below 64)) as Hro by (by apply repr_below).
    assert (repr (Z.ones b) (bits_below b)) as Hrl by (apply repr_below; lia).
    iMod (heap_init c W T K (bits_below 64) (bits_below b) ones (Z.ones b) p nroot HO HL Hro Hrl HFull64
      with "Ha Ho Hl Hw Hm H1 H2 Hu") as (gs γt1 γm1 γt2 γm2) "[#Hheap Ht]".
    iModIntro. iApply (Hclient _ (heap.block W K (bits_below 64) (bits_below b) p gs) (tickets K gs) with "[] [] Ht").
    - intros n. iApply block_memory.
    - iIntros "!>" (Φ) "_ HΦ". wp_apply (malloc_spec c W T K (bits_below 64) (bits_below b) ones (Z.ones b) p nroot gs γt1 γm1
        γt2 γm2 HW HWT HT Hc HK HO HL Hro Hrl HFull64 with "Hheap"). done.
    - iIntros (n) "!>". iIntros (Φ) "[Hb Ht] HΦ". wp_apply (free_spec c W T K (bits_below 64) (bits_below b) ones (Z.ones b) p
        nroot gs γt1 γm1 γt2 γm2 HW HWT HT Hc HK HO HL Hro Hrl HFull64 with "[$Hheap $Hb $Ht]"). done.
  Qed.

  (* T threads that allocate, write their number, read it back, and free, for ever.
  Another number is a fault: the thread is stuck. *)
  Definition worker (t : nat) : val := rec: "work" <> :=
    let: "n" := the_malloc #() in
    if: "n" = #0 then "work" #()
    else
      (#(p_memory p) +ₗ "n") <- #t;;
      if: !(#(p_memory p) +ₗ "n") = #t then the_free "n";; "work" #() else #0 #0.
  Fixpoint workers (n : nat) : expr := match n with O => #() | S t => Fork (worker t #());; workers t end.

  Theorem workers_are_safe : adequate NotStuck (workers T) (start l c W K b) (λ _ _, True).
  Proof using All.
    apply heap_is_safe. iIntros (Hheap block ticket Hmem) "#Hmalloc #Hfree Ht".
    iAssert (□ ∀ t : nat, ticket -∗ WP worker t #() {{ _, True }})%I as "#Hwork".
    { iIntros "!>" (t) "Ht". iLöb as "IH". wp_lam. wp_apply ("Hmalloc" with "[//]"). iIntros (n) "Hn". wp_pures.
      case_bool_decide as H0; wp_pures; [by iApply "IH"|]. rewrite decide_False; [|naive_solver].
      iDestruct (Hmem with "Hn") as (v) "[Hl Hn]". wp_store. wp_pures. wp_load. wp_pures. rewrite bool_decide_true //. wp_pures.
      wp_apply ("Hfree" with "[$Ht Hn Hl]"); [by iApply "Hn"|]. iIntros "Ht". wp_pures. by iApply "IH". }
    iAssert (∀ n m, ([∗ list] _ ∈ seq m n, ticket) -∗ WP workers n {{ _, True }})%I as "H"; [|by iApply "H"].
    iIntros (n). iInduction n as [|n] "IH"; iIntros (m) "Ht"; simpl; [by iApply wp_value|]. iDestruct "Ht" as "[Ht Hts]".
    wp_apply (wp_fork with "[Ht]"); [iNext; by iApply "Hwork"|]. wp_pures. by iApply "IH".
  Qed.
End safe.
