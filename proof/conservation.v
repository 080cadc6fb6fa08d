(* SPDX-License-Identifier: MIT *)
(* conservation.v: nothing is lost. The protocol of one superblock's descriptor as a transition system, and what is true of
   each state that it reaches, for any number of activities, words, lives, in any schedule. No Iris.

   Stands for  src/superblock/superblocks.h, atomic step by atomic step: each rule of `move` is one atomic operation with the
               branch behind it. The anchor is the integer, and anchor.v's functions decide. `Moves` below has the names
   Activity    a call in progress, or a superblock that is held (by a slab, or between the steps of a call). A thread may be
               in several: a slab's hold, its own call, a signal handler's on top of that
   Counted     listed: entries in partial lists. pooled: entries in the pool. out: spans that were taken from the pages and
               not given back. used: the blocks that left the superblocks' hands (program, magazines)
   Left out    memory orders; double frees; which of the lists; how push, pop and the map of pages work inside; words before
               a descriptor's first life (as superblock_init.v)
   Moves       free group.freed, faa was_freed, claim, give, settle settle_empty, list, recycle, pop, look, adopt adopt_from,
               found, take_at, take, put, hand out, load, let_go, give back, reuse, span, write, born make *)
From Coq Require Import ssreflect ZArith Lia.
From stdpp Require Import gmap functions.
From iris.prelude Require Import prelude.
From freeway Require Import anchor counts.
From iris.prelude Require Import options.
Set Default Proof Using "All".
Open Scope Z_scope.

(* Where an activity is, with the values that it has in hand. *)
Inductive activity :=
  | Away                                             (* between calls, or before the first step of one *)
  (* free_group *)
  | Freed (bn bf : bool)                             (* the word is changed, the anchor is not *)
  | Claiming (now : Z)                               (* about to take U away *)
  | Emptied (now : Z)                                (* its step made the anchor EMPTY: it has the span *)
  | Settling (now : Z)                               (* the span is given back *)
  (* whoever got the entry, or the descriptor *)
  | Listing | Recycling
  (* adopt_from, take_at *)
  | Popped | Adopting (seen : Z) | Found (seen : Z)
  (* the holder: what it owes, and the blocks in its hands *)
  | Holding (xn xf : Z) (hand : nat → gset Z)
  | LettingGo (xn xf seen : Z)
  | GivingBack (tombstone : bool)
  (* make *)
  | Making | Writing (j : nat).

Record superblock := {
  anchor : Z; words : list (gset Z); used : nat → gset Z; listed : Z; pooled : Z; out : Z }.
Record state := { sb : superblock; activities : list activity }.

Definition with_anchor (s : superblock) a := {| anchor := a; words := s.(words); used := s.(used);
  listed := s.(listed); pooled := s.(pooled); out := s.(out) |}.
Definition with_blocks (s : superblock) Fs U := {| anchor := s.(anchor); words := Fs; used := U;
  listed := s.(listed); pooled := s.(pooled); out := s.(out) |}.
Definition with_places (s : superblock) l p o := {| anchor := s.(anchor); words := s.(words); used := s.(used);
  listed := l; pooled := p; out := o |}.

(* A sum over all activities. *)
Fixpoint total (f : activity → Z) (ps : list activity) : Z := match ps with [] => 0 | p :: r => f p + total f r end.
Lemma total_insert f ps i p p' : ps !! i = Some p → total f (<[i:=p']> ps) = total f ps + f p' - f p.
Proof.
  revert i. induction ps as [|q r IH]; intros [|i] Hi; simplify_eq/=; [lia|]. rewrite (IH i) //. lia.
Qed.
Lemma total_nonneg f ps : (∀ p, 0 ≤ f p) → 0 ≤ total f ps.
Proof. intros Hf. induction ps as [|p r IH]; simpl; [lia|]. pose proof (Hf p). lia. Qed.
Lemma total_at f ps i p : (∀ p, 0 ≤ f p) → ps !! i = Some p → f p ≤ total f ps.
Proof.
  intros Hf. revert i. induction ps as [|q r IH]; intros [|i] Hi; simplify_eq/=; [pose proof (total_nonneg f r Hf); lia|].
  pose proof (IH i Hi). pose proof (Hf q). lia.
Qed.
Lemma total_length f ps : (∀ p, f p ≤ 1) → total f ps ≤ Z.of_nat (length ps).
Proof. intros Hf. induction ps as [|p r IH]; simpl; [lia|]. pose proof (Hf p). lia. Qed.
Lemma total_zero f g ps : (∀ p, 0 ≤ f p) → (∀ p, f p = 0 → g p = 0) → total f ps = 0 → total g ps = 0.
Proof.
  intros Hf Hg. induction ps as [|p r IH]; simpl; [done|]. intros H0. pose proof (Hf p). pose proof (total_nonneg f r Hf).
  rewrite (Hg p) ?IH; lia.
Qed.
(* One activity has all that there is of f: then all of g. *)
Lemma total_sole f g ps i p :
  (∀ p, 0 ≤ f p) → (∀ p, f p = 0 → g p = 0) → ps !! i = Some p → total f ps = f p → total g ps = g p.
Proof.
  intros Hf Hg. revert i. induction ps as [|q r IH]; intros [|i] Hi Ht; simplify_eq/=.
  - rewrite (total_zero f g) //; lia.
  - pose proof (total_at f r i p Hf Hi). pose proof (Hf q). rewrite (IH i) //; [rewrite (Hg q); lia|lia].
Qed.

(* What an activity owns, and what it must still do. *)
Definition pend_nz (p : activity) : Z := match p with Freed bn _ => Z.b2z bn | _ => 0 end.
Definition pend_fw (p : activity) : Z := match p with Freed _ bf => Z.b2z bf | _ => 0 end.
Definition holding (p : activity) : Z := match p with Holding _ _ _ | LettingGo _ _ _ => 1 | _ => 0 end.
Definition owes_nz (p : activity) : Z := match p with Holding xn _ _ | LettingGo xn _ _ => xn | _ => 0 end.
Definition owes_fw (p : activity) : Z := match p with Holding _ xf _ | LettingGo _ xf _ => xf | _ => 0 end.
Definition in_hand (j : nat) (i : Z) (p : activity) : Z :=
  match p with Holding _ _ H => Z.b2z (bool_decide (i ∈ H j)) | _ => 0 end.
Definition entry (p : activity) : Z := match p with Listing | Popped | Adopting _ => 1 | _ => 0 end.
Definition descriptor (p : activity) : Z :=
  match p with Recycling | GivingBack false | Making | Writing _ => 1 | _ => 0 end.
Definition span (p : activity) : Z := match p with Emptied _ | GivingBack _ | Writing _ => 1 | _ => 0 end.
Definition claims (p : activity) : Z := match p with Claiming _ => 1 | _ => 0 end.
Definition settles (p : activity) : Z := match p with Emptied now | Settling now => Z.b2z (unlb now) | _ => 0 end.

Lemma pend_nz_01 p : 0 ≤ pend_nz p ≤ 1.
Proof. destruct p as [|[]| | | | | | | | | | |[]| |]; simpl; lia. Qed.
Lemma pend_fw_01 p : 0 ≤ pend_fw p ≤ 1.
Proof. destruct p as [|? []| | | | | | | | | | |[]| |]; simpl; lia. Qed.
Lemma holding_01 p : 0 ≤ holding p.
Proof. destruct p; simpl; lia. Qed.
Lemma entry_01 p : 0 ≤ entry p.
Proof. destruct p; simpl; lia. Qed.
Lemma descriptor_01 p : 0 ≤ descriptor p.
Proof. destruct p as [| | | | | | | | | | | |[]| |]; simpl; lia. Qed.
Lemma span_01 p : 0 ≤ span p.
Proof. destruct p; simpl; lia. Qed.
Lemma claims_01 p : 0 ≤ claims p.
Proof. destruct p; simpl; lia. Qed.
Lemma settles_01 p : 0 ≤ settles p.
Proof. destruct p; simpl; try lia; destruct (unlb now); simpl; lia. Qed.
Lemma in_hand_01 j i p : 0 ≤ in_hand j i p.
Proof. destruct p; simpl; try lia. case_bool_decide; simpl; lia. Qed.
Lemma owes_nz_holder p : holding p = 0 → owes_nz p = 0.
Proof. by destruct p. Qed.
Lemma owes_fw_holder p : holding p = 0 → owes_fw p = 0.
Proof. by destruct p. Qed.

Section system.
  Context (c : Z) (W : nat) (Full : nat → gset Z).

  Notation change bn bf := (4096 * Z.b2z bn + 4294967296 * Z.b2z bf).
  Notation owed xn xf := (4096 * xn + 4294967296 * xf).
  Definition nothing : nat → gset Z := λ _, ∅.

  (* Behind the word: is anything left to do?   Behind the fetch_add.   Behind a look at the anchor. *)
  Definition after_word (bn bf : bool) : activity := if bn || bf then Freed bn bf else Away.
  Definition after_add (now : Z) : activity :=
    if emptyb c W now then Emptied now else if wants_listing now then Claiming now else Away.
  Definition after_claim (now : Z) : activity := if wants_listing now then Claiming now else Away.
  Definition after_look (seen : Z) : activity := if emptyb c W seen then Recycling else Adopting seen.
  Definition after_adopt (find : Z) : activity := if bool_decide (find = kAdopted) then Holding 0 0 nothing else Away.
  Definition after_let_go (duty : Z) : activity :=
    if bool_decide (duty = kEmpty) then GivingBack false
    else if bool_decide (duty = kTombstoneGiven) then GivingBack true
    else if bool_decide (duty = kList) then Listing else Away.

  (* One atomic step of one activity. *)
  Inductive move (s : superblock) : activity → superblock → activity → Prop :=
    | m_free j F M :                                             (* words[j].fetch_or *)
        s.(words) !! j = Some F → M ≠ ∅ → M ⊆ s.(used) j →
        move s Away (with_blocks s (<[j:=F ∪ M]> s.(words)) (<[j:=s.(used) j ∖ M]> s.(used)))
             (after_word (bool_decide (F = ∅)) (bool_decide (F ∪ M = Full j)))
    | m_faa bn bf : let now := s.(anchor) + change bn bf in      (* anchor.fetch_add *)
        move s (Freed bn bf) (with_anchor s now) (after_add now)
    | m_claim now : s.(anchor) = now → move s (Claiming now) (with_anchor s (Z.land now (Z.lnot 1))) Listing
    | m_claim_fails now : s.(anchor) ≠ now → move s (Claiming now) s (after_claim s.(anchor))
    | m_give now :                                               (* give_span, and is it unlisted? *)
        move s (Emptied now) (with_places s s.(listed) s.(pooled) (s.(out) - 1)) (if unlb now then Settling now else Away)
    | m_settle now : s.(anchor) = now → move s (Settling now) (with_anchor s (Z.land now (Z.lnot 1))) Recycling
    | m_settle_fails now : s.(anchor) ≠ now → move s (Settling now) s Away
    | m_list : move s Listing (with_places s (s.(listed) + 1) s.(pooled) s.(out)) Away
    | m_recycle : move s Recycling (with_places s s.(listed) (s.(pooled) + 1) s.(out)) Away
    | m_pop : 0 < s.(listed) → move s Away (with_places s (s.(listed) - 1) s.(pooled) s.(out)) Popped
    | m_look : move s Popped s (after_look s.(anchor))           (* anchor.load *)
    | m_adopt seen : s.(anchor) = seen →
        move s (Adopting seen) (with_anchor s (popped c W seen).1) (after_adopt (popped c W seen).2)
    | m_adopt_fails seen : s.(anchor) ≠ seen → move s (Adopting seen) s (after_look s.(anchor))
    | m_found : may_take c W s.(anchor) = true → move s Away s (Found s.(anchor))
    | m_take_at seen : s.(anchor) = seen →
        move s (Found seen) (with_anchor s (Z.lor seen 1026)) (Holding 0 0 nothing)
    | m_take_at_fails seen : s.(anchor) ≠ seen → move s (Found seen) s Away
    | m_take xn xf H j F M : s.(words) !! j = Some F →           (* words[j].fetch_and, and owed *)
        move s (Holding xn xf H) (with_blocks s (<[j:=F ∖ M]> s.(words)) s.(used))
             (Holding (xn + Z.b2z (bool_decide (F ∩ M ≠ ∅ ∧ F ∩ M = F)))
                      (xf + Z.b2z (bool_decide (F ∩ M ≠ ∅ ∧ F = Full j))) (<[j:=H j ∪ (F ∩ M)]> H))
    | m_put xn xf H j F M : s.(words) !! j = Some F → M ≠ ∅ → M ⊆ H j →      (* words[j].fetch_or, and owed *)
        move s (Holding xn xf H) (with_blocks s (<[j:=F ∪ M]> s.(words)) s.(used))
             (Holding (xn - Z.b2z (bool_decide (F = ∅))) (xf - Z.b2z (bool_decide (F ∪ M = Full j))) (<[j:=H j ∖ M]> H))
    | m_hand_out xn xf H j M : (j < W)%nat → M ⊆ H j →
        move s (Holding xn xf H) (with_blocks s s.(words) (<[j:=s.(used) j ∪ M]> s.(used)))
             (Holding xn xf (<[j:=H j ∖ M]> H))
    | m_load xn xf H : (∀ j, H j = ∅) → move s (Holding xn xf H) s (LettingGo xn xf s.(anchor))
    | m_let_go xn xf seen : s.(anchor) = seen →
        move s (LettingGo xn xf seen) (with_anchor s (let_go c W seen (owed xn xf)).1)
             (after_let_go (let_go c W seen (owed xn xf)).2)
    | m_let_go_fails xn xf seen : s.(anchor) ≠ seen → move s (LettingGo xn xf seen) s (LettingGo xn xf s.(anchor))
    | m_give_back (tombstone : bool) :                           (* give_span *)
        move s (GivingBack tombstone) (with_places s s.(listed) s.(pooled) (s.(out) - 1))
             (if tombstone then Away else Recycling)
    | m_reuse : 0 < s.(pooled) → move s Away (with_places s s.(listed) (s.(pooled) - 1) s.(out)) Making
    | m_no_span : move s Making s Recycling                      (* take_span: no memory *)
    | m_span : move s Making (with_places s s.(listed) s.(pooled) (s.(out) + 1)) (Writing 0)
    | m_write j : (j < W)%nat →
        move s (Writing j) (with_blocks s (<[j:=Full j]> s.(words)) s.(used)) (Writing (S j))
    | m_born : move s (Writing W) (with_anchor s (born c W)) (Holding 0 0 nothing).

  Inductive step (s : state) : state → Prop :=
    step_at i p sb' p' : s.(activities) !! i = Some p → move s.(sb) p sb' p' →
      step s {| sb := sb'; activities := <[i:=p']> s.(activities) |}.

  (* A descriptor in the pool, its words full; T activities may come. *)
  Definition first (T : nat) : state :=
    {| sb := {| anchor := empty_state c W; words := Full <$> seq 0 W; used := nothing; listed := 0; pooled := 1; out := 0 |};
       activities := replicate T Away |}.
  Definition reached (T : nat) : state → Prop := rtc step (first T).
  (* The invariant ------------------------------------------------------------------------------------------------- *)

  Notation f_nz := (λ _ : nat, nzb).
  Notation f_fw := (λ j : nat, fwb (Full j)).
  Context (HW : (0 < W)%nat) (HWT : Z.of_nat W < 262144) (Hc : 0 ≤ c < 256) (HFull : ∀ j, Full j ≠ ∅).

  (* What its steps so far left in an activity's hands. *)
  Definition sound (p : activity) : Prop :=
    match p with
    | Freed bn bf => bn || bf = true
    | Claiming now => unlb now = true
    | Emptied now => ∃ u, now = enc c u false false W W
    | Settling now => now = enc c true false false W W
    | Adopting seen => emptyb c W seen = false
    | Found seen => may_take c W seen = true
    | _ => True
    end.

  (* The flags U, HELD and ENTRY; whether the descriptor is in the pool or about to be; whether the superblock is EMPTY. *)
  Record inv_at (s : superblock) (ps : list activity) (u h e pool E : bool) (nz fw : Z) : Prop := {
    i_anchor : s.(anchor) = enc c u h e nz fw;
    i_words : length s.(words) = W;
    i_nz : nz = cnt f_nz 0 s.(words) - total pend_nz ps + total owes_nz ps;
    i_fw : fw = cnt f_fw 0 s.(words) - total pend_fw ps + total owes_fw ps;
    i_holder : total holding ps = Z.b2z h;
    i_unlisted : u = true → h = false;
    i_entry_held : h = false → e = false;
    i_empty : E = true ↔ h = false ∧ nz = W ∧ fw = W;
    i_pool : pool = true → E = true ∧ u = false;
    i_entry : s.(listed) + total entry ps + (if h then Z.b2z (negb e) else Z.b2z u + Z.b2z pool) = 1;
    i_descriptor : s.(pooled) + total descriptor ps = Z.b2z pool;
    i_span : s.(out) = total span ps + Z.b2z (negb E);
    i_duty : u = true → 0 < nz → 1 ≤ total claims ps + (if E then total settles ps else 0);
    i_blocks : ∀ j F i, s.(words) !! j = Some F →
      Z.b2z (bool_decide (i ∈ F)) + Z.b2z (bool_decide (i ∈ s.(used) j)) + total (in_hand j i) ps = Z.b2z (bool_decide (i ∈ Full j));
    i_places : 0 ≤ s.(listed) ∧ 0 ≤ s.(pooled);
    i_sound : Forall sound ps;
    i_activities : Z.of_nat (length ps) < 262144 }.
  Definition inv (s : superblock) (ps : list activity) : Prop := ∃ u h e pool E nz fw, inv_at s ps u h e pool E nz fw.

  Section here.
    Context s ps u h e pool E nz fw (I : inv_at s ps u h e pool E nz fw).

    Lemma bounds :
      -262144 ≤ nz - total owes_nz ps ≤ W ∧ -262144 ≤ fw - total owes_fw ps ≤ W ∧
      0 ≤ total pend_nz ps ∧ 0 ≤ total pend_fw ps.
    Proof.
      pose proof (cnt_bound f_nz 0 s.(words)). pose proof (cnt_bound f_fw 0 s.(words)).
      pose proof (total_nonneg pend_nz ps (λ p, proj1 (pend_nz_01 p))). pose proof (total_length pend_nz ps (λ p, proj2 (pend_nz_01 p))).
      pose proof (total_nonneg pend_fw ps (λ p, proj1 (pend_fw_01 p))). pose proof (total_length pend_fw ps (λ p, proj2 (pend_fw_01 p))).
      destruct I. lia.
    Qed.
    Lemma owes_nothing : h = false → total owes_nz ps = 0 ∧ total owes_fw ps = 0.
    Proof.
      intros ->. pose proof (i_holder _ _ _ _ _ _ _ _ _ I) as Hh. split; apply (total_zero holding); try done.
      - apply holding_01. - apply owes_nz_holder. - apply holding_01. - apply owes_fw_holder.
    Qed.
    Lemma unl_here : unlb s.(anchor) = u.
    Proof. destruct I as [->]. apply unlb_enc. Qed.
    Lemma held_here : heldb s.(anchor) = h.
    Proof. destruct I as [->]. apply heldb_enc. Qed.
    Lemma ent_here : entb s.(anchor) = e.
    Proof. destruct I as [->]. by apply entb_enc. Qed.
    Lemma empty_here : emptyb c W s.(anchor) = E.
    Proof.
      pose proof bounds as (?&?&_). pose proof owes_nothing as Ho. destruct I as [-> _ _ _ _ _ He HE].
      apply eq_true_iff_eq. rewrite HE. destruct h.
      - rewrite emptyb_enc_held //. naive_solver.
      - destruct (Ho eq_refl). rewrite (He eq_refl) emptyb_enc_free; [|lia..]. rewrite bool_decide_eq_true. naive_solver.
    Qed.
    Lemma some_here : h = false → nzposb s.(anchor) = bool_decide (0 < nz).
    Proof.
      intros Hh. pose proof bounds as (?&?&_). destruct (owes_nothing Hh). destruct I as [-> _]. apply nzposb_enc; [done|lia].
    Qed.
    (* EMPTY: nobody is between a word and the anchor, and every word is full. *)
    Lemma full_here : E = true → total pend_nz ps = 0 ∧ total pend_fw ps = 0 ∧ ∀ j F, s.(words) !! j = Some F → F = Full j.
    Proof.
      intros HE. pose proof bounds as (?&?&?&?). pose proof owes_nothing as Ho.
      destruct I as [_ Hl Hnz Hfw _ _ _ Hi _ _ _ _ _ _ _ _ _]. destruct (proj1 Hi HE) as (-> & H5 & H6).
      destruct (Ho eq_refl) as [Ho1 Ho2]. pose proof (cnt_bound f_nz 0 s.(words)). pose proof (cnt_bound f_fw 0 s.(words)).
      split_and!; [lia..|]. intros j F HF. assert (cnt f_fw 0 s.(words) = Z.of_nat (length s.(words))) as Hcf by lia.
      pose proof (cnt_full _ _ _ Hcf j F HF) as Hf. by apply bool_decide_eq_true in Hf.
    Qed.
  End here.

  Arguments bounds {_ _ _ _ _ _ _ _ _} I.
  Arguments owes_nothing {_ _ _ _ _ _ _ _ _} I.
  Arguments unl_here {_ _ _ _ _ _ _ _ _} I.
  Arguments held_here {_ _ _ _ _ _ _ _ _} I.
  Arguments ent_here {_ _ _ _ _ _ _ _ _} I.
  Arguments empty_here {_ _ _ _ _ _ _ _ _} I.
  Arguments some_here {_ _ _ _ _ _ _ _ _} I.
  Arguments full_here {_ _ _ _ _ _ _ _ _} I.

  (* The steps ----------------------------------------------------------------------------------------------------- *)

  Ltac opened :=
    let I := fresh in let H := fresh in
    intros (u & h & e & pool & E & nz & fw & I) H;
    pose proof (bounds I) as Hbounds; pose proof (owes_nothing I) as Howes; pose proof (unl_here I) as Hunl;
    pose proof (held_here I) as Hheld; pose proof (ent_here I) as Hent; pose proof (empty_here I) as Hemp;
    pose proof (some_here I) as Hsome; pose proof (full_here I) as Hfull;
    match type of H with ?ps !! _ = Some ?p =>
      pose proof (total_at entry _ _ _ entry_01 H) as Hen1; pose proof (total_at descriptor _ _ _ descriptor_01 H) as Hde1;
      pose proof (total_at span _ _ _ span_01 H) as Hsp1; pose proof (total_at holding _ _ _ holding_01 H) as Hho1;
      pose proof (total_nonneg entry ps entry_01) as Hen0; pose proof (total_nonneg descriptor ps descriptor_01) as Hde0;
      pose proof (total_nonneg claims ps claims_01) as Hcl0; pose proof (total_nonneg settles ps settles_01) as Hse0;
      pose proof (Forall_lookup_1 _ _ _ _ (i_sound _ _ _ _ _ _ _ _ _ I) H) as Hgood; simpl in *
    end;
    destruct I as [Ia Il Inz Ifw Ih Iu Ieh Iem Ipo Ien Ide Isp Idu Ib Ipl Iso Iac]; rename H into Hi.
  Ltac sums := repeat match goal with H : _ → _ |- _ => clear H | H : _ ↔ _ |- _ => clear H | H : ∀ _, _ |- _ => clear H end; lia.
  Lemma in_hand_nothing j b : in_hand j b (Holding 0 0 nothing) = 0.
  Proof. rewrite /in_hand bool_decide_false; [done|apply not_elem_of_empty]. Qed.
  Ltac closed Hi :=
    split; simpl in *; rewrite ?(total_insert _ _ _ _ _ Hi) ?insert_length /=; try assumption;
    try solve [intros; discriminate]; try solve [intros _; (reflexivity || split; reflexivity)]; try sums;
    try solve [split; [intros; discriminate|intros [? _]; discriminate]];
    try (apply Forall_insert; simpl; done);
    try match goal with                                                     (* the duty is where it was *)
      | D : ?u = true → 0 < ?nz → _ |- ?u = true → 0 < ?nz → _ =>
        let Hu := fresh in let Hn := fresh in intros Hu Hn; specialize (D Hu Hn); case_match; sums end;
    try match goal with                                                     (* the blocks are where they were *)
      | B : ∀ j F k, words ?s !! j = Some F → _ |- ∀ j F k, words ?s !! j = Some F → _ =>
        let HF := fresh in intros ??? HF; rewrite (total_insert _ _ _ _ _ Hi) ?in_hand_nothing /= -(B _ _ _ HF); sums end.

  Lemma list_conserves s ps i :
    inv s ps → ps !! i = Some Listing → inv (with_places s (s.(listed) + 1) s.(pooled) s.(out)) (<[i:=Away]> ps).
  Proof. opened. exists u, h, e, pool, E, nz, fw. closed Hi. Qed.
  Lemma recycle_conserves s ps i :
    inv s ps → ps !! i = Some Recycling → inv (with_places s s.(listed) (s.(pooled) + 1) s.(out)) (<[i:=Away]> ps).
  Proof. opened. exists u, h, e, pool, E, nz, fw. closed Hi. Qed.
  Lemma pop_conserves s ps i :
    inv s ps → ps !! i = Some Away → 0 < s.(listed) →
    inv (with_places s (s.(listed) - 1) s.(pooled) s.(out)) (<[i:=Popped]> ps).
  Proof. opened. intros Hp. exists u, h, e, pool, E, nz, fw. closed Hi. Qed.
  Lemma reuse_conserves s ps i :
    inv s ps → ps !! i = Some Away → 0 < s.(pooled) →
    inv (with_places s s.(listed) (s.(pooled) - 1) s.(out)) (<[i:=Making]> ps).
  Proof. opened. intros Hp. exists u, h, e, pool, E, nz, fw. closed Hi. Qed.
  Lemma no_span_conserves s ps i : inv s ps → ps !! i = Some Making → inv s (<[i:=Recycling]> ps).
  Proof. opened. exists u, h, e, pool, E, nz, fw. closed Hi. Qed.
  Lemma span_conserves s ps i :
    inv s ps → ps !! i = Some Making → inv (with_places s s.(listed) s.(pooled) (s.(out) + 1)) (<[i:=Writing 0]> ps).
  Proof. opened. exists u, h, e, pool, E, nz, fw. closed Hi. Qed.
  Lemma give_back_conserves s ps i (tombstone : bool) :
    inv s ps → ps !! i = Some (GivingBack tombstone) →
    inv (with_places s s.(listed) s.(pooled) (s.(out) - 1)) (<[i:=if tombstone then Away else Recycling]> ps).
  Proof.
    opened. exists u, h, e, pool, E, nz, fw. destruct tombstone; closed Hi.
  Qed.
  Lemma found_conserves s ps i :
    inv s ps → ps !! i = Some Away → may_take c W s.(anchor) = true → inv s (<[i:=Found s.(anchor)]> ps).
  Proof. opened. intros Hm. exists u, h, e, pool, E, nz, fw. closed Hi. Qed.
  Lemma take_at_fails_conserves s ps i seen : inv s ps → ps !! i = Some (Found seen) → inv s (<[i:=Away]> ps).
  Proof. opened. exists u, h, e, pool, E, nz, fw. closed Hi. Qed.
  Lemma load_conserves s ps i xn xf H :
    inv s ps → ps !! i = Some (Holding xn xf H) → (∀ j, H j = ∅) → inv s (<[i:=LettingGo xn xf s.(anchor)]> ps).
  Proof.
    opened. intros H0. exists u, h, e, pool, E, nz, fw. closed Hi.
    intros ? ? ? ?. rewrite (total_insert _ _ _ _ _ Hi) /= H0 -(Ib _ _ _ ltac:(eassumption)).
    rewrite (bool_decide_false (_ ∈ (∅ : gset Z))); [simpl; lia|set_solver].
  Qed.
  Lemma let_go_fails_conserves s ps i xn xf seen :
    inv s ps → ps !! i = Some (LettingGo xn xf seen) → inv s (<[i:=LettingGo xn xf s.(anchor)]> ps).
  Proof. opened. exists u, h, e, pool, E, nz, fw. closed Hi. Qed.

  (* The word's steps. *)
  Lemma word_at s ps u h e pool E nz fw i p j F b :
    inv_at s ps u h e pool E nz fw → ps !! i = Some p → s.(words) !! j = Some F →
    Z.b2z (bool_decide (b ∈ F)) + Z.b2z (bool_decide (b ∈ s.(used) j)) + in_hand j b p ≤ Z.b2z (bool_decide (b ∈ Full j)).
  Proof.
    intros I Hi HF. rewrite -(i_blocks _ _ _ _ _ _ _ _ _ I _ _ _ HF).
    pose proof (total_at (in_hand j b) ps i p (in_hand_01 j b) Hi). lia.
  Qed.
  Lemma apart (F X G : gset Z) :
    (∀ b, Z.b2z (bool_decide (b ∈ F)) + Z.b2z (bool_decide (b ∈ X)) ≤ Z.b2z (bool_decide (b ∈ G))) → F ⊆ G ∧ F ## X ∧ X ⊆ G.
  Proof. intros H. split_and!; intros b; specialize (H b); repeat case_bool_decide; simpl in *; (done || lia). Qed.
  Lemma in_union (A B : gset Z) b : bool_decide (b ∈ A ∪ B) = bool_decide (b ∈ A) || bool_decide (b ∈ B).
  Proof. rewrite -bool_decide_or. apply bool_decide_ext, elem_of_union. Qed.
  Lemma in_intersection (A B : gset Z) b : bool_decide (b ∈ A ∩ B) = bool_decide (b ∈ A) && bool_decide (b ∈ B).
  Proof. rewrite -bool_decide_and. apply bool_decide_ext, elem_of_intersection. Qed.
  Lemma in_difference (A B : gset Z) b : bool_decide (b ∈ A ∖ B) = bool_decide (b ∈ A) && negb (bool_decide (b ∈ B)).
  Proof. rewrite -bool_decide_not -bool_decide_and. apply bool_decide_ext, elem_of_difference. Qed.
  Lemma moved (A B M : gset Z) b : M ⊆ B → A ## B →
    Z.b2z (bool_decide (b ∈ A ∪ M)) + Z.b2z (bool_decide (b ∈ B ∖ M)) = Z.b2z (bool_decide (b ∈ A)) + Z.b2z (bool_decide (b ∈ B)).
  Proof.
    intros HM Hd. specialize (HM b). specialize (Hd b). rewrite in_union in_difference.
    repeat case_bool_decide; simpl; done || (exfalso; auto).
  Qed.
  Lemma taken (A B M : gset Z) b : A ## B →
    Z.b2z (bool_decide (b ∈ A ∖ M)) + Z.b2z (bool_decide (b ∈ B ∪ A ∩ M)) = Z.b2z (bool_decide (b ∈ A)) + Z.b2z (bool_decide (b ∈ B)).
  Proof.
    intros Hd. specialize (Hd b). rewrite in_union in_difference in_intersection.
    repeat case_bool_decide; simpl; done || (exfalso; auto).
  Qed.

  Lemma free_conserves s ps i j F M :
    inv s ps → ps !! i = Some Away → s.(words) !! j = Some F → M ≠ ∅ → M ⊆ s.(used) j →
    inv (with_blocks s (<[j:=F ∪ M]> s.(words)) (<[j:=s.(used) j ∖ M]> s.(used)))
        (<[i:=after_word (bool_decide (F = ∅)) (bool_decide (F ∪ M = Full j))]> ps).
  Proof.
    intros Hinv Hi0 HF HM Hs.
    assert (F ⊆ Full j ∧ F ## s.(used) j ∧ s.(used) j ⊆ Full j) as (HFs & Hd & HUs).
    { destruct Hinv as (u & h & e & pool & E & nz & fw & I). apply apart. intros b.
      pose proof (word_at _ _ _ _ _ _ _ _ _ _ _ _ _ b I Hi0 HF). simpl in *. lia. }
    assert (F ## M) as HdM by (intros x ??; eapply Hd; eauto). assert (M ⊆ Full j) as HMs by (by etrans).
    revert Hinv Hi0. opened. exists u, h, e, pool, E, nz, fw.
    set (bn := bool_decide (F = ∅)). set (bf := bool_decide (F ∪ M = Full j)).
    assert (pend_nz (after_word bn bf) = Z.b2z bn ∧ pend_fw (after_word bn bf) = Z.b2z bf ∧
      owes_nz (after_word bn bf) = 0 ∧ owes_fw (after_word bn bf) = 0 ∧ holding (after_word bn bf) = 0 ∧
      entry (after_word bn bf) = 0 ∧ descriptor (after_word bn bf) = 0 ∧ span (after_word bn bf) = 0 ∧
      claims (after_word bn bf) = 0 ∧ settles (after_word bn bf) = 0 ∧ (∀ k b, in_hand k b (after_word bn bf) = 0) ∧
      sound (after_word bn bf)) as (H1&H2&H3&H4&H5&H6&H7&H8&H9&H10&H11&H12).
    { rewrite /after_word. by destruct bn, bf. }
    closed Hi.
    - rewrite (cnt_insert f_nz _ _ _ _ _ HF) H1 H3. pose proof (free_nz F M HM) as Hx. rewrite -/bn in Hx. sums.
    - rewrite (cnt_insert f_fw _ _ _ _ _ HF) H2 H4 /=. pose proof (free_fw _ _ _ HM HMs HdM) as Hx. rewrite -/bf in Hx. sums.
    - intros k G b HG. rewrite (total_insert _ _ _ _ _ Hi) /= H11. destruct (decide (j = k)) as [<-|Hne].
      + rewrite list_lookup_insert in HG; [|by eapply lookup_lt_Some]. injection HG as <-.
        rewrite fn_lookup_insert -(Ib _ _ _ HF). pose proof (moved _ _ _ b Hs Hd). sums.
      + rewrite list_lookup_insert_ne // in HG. rewrite fn_lookup_insert_ne // -(Ib _ _ _ HG). sums.
  Qed.

  Lemma take_conserves s ps i xn xf H j F M :
    inv s ps → ps !! i = Some (Holding xn xf H) → s.(words) !! j = Some F →
    inv (with_blocks s (<[j:=F ∖ M]> s.(words)) s.(used))
        (<[i:=Holding (xn + Z.b2z (bool_decide (F ∩ M ≠ ∅ ∧ F ∩ M = F)))
                      (xf + Z.b2z (bool_decide (F ∩ M ≠ ∅ ∧ F = Full j))) (<[j:=H j ∪ (F ∩ M)]> H)]> ps).
  Proof.
    intros Hinv Hi0 HF. assert (F ⊆ Full j ∧ F ## H j ∧ H j ⊆ Full j) as (HFs & Hd & _).
    { destruct Hinv as (u & h & e & pool & E & nz & fw & I). apply apart. intros b.
      pose proof (word_at _ _ _ _ _ _ _ _ _ _ _ _ _ b I Hi0 HF). pose proof (b2z_01 (bool_decide (b ∈ s.(used) j))).
      simpl in *. lia. }
    revert Hinv Hi0. opened. exists u, h, e, pool, E, nz, fw. closed Hi.
    - rewrite (cnt_insert f_nz _ _ _ _ _ HF). pose proof (take_nz F M). sums.
    - rewrite (cnt_insert f_fw _ _ _ _ _ HF) /=. pose proof (take_fw _ _ M HFs). sums.
    - intros k G b HG. rewrite (total_insert _ _ _ _ _ Hi) /=. destruct (decide (j = k)) as [<-|Hne].
      + rewrite list_lookup_insert in HG; [|by eapply lookup_lt_Some]. injection HG as <-.
        rewrite fn_lookup_insert -(Ib _ _ _ HF). pose proof (taken _ _ M b Hd). sums.
      + rewrite list_lookup_insert_ne // in HG. rewrite fn_lookup_insert_ne // -(Ib _ _ _ HG). sums.
  Qed.
  Lemma put_conserves s ps i xn xf H j F M :
    inv s ps → ps !! i = Some (Holding xn xf H) → s.(words) !! j = Some F → M ≠ ∅ → M ⊆ H j →
    inv (with_blocks s (<[j:=F ∪ M]> s.(words)) s.(used))
        (<[i:=Holding (xn - Z.b2z (bool_decide (F = ∅))) (xf - Z.b2z (bool_decide (F ∪ M = Full j))) (<[j:=H j ∖ M]> H)]> ps).
  Proof.
    intros Hinv Hi0 HF HM Hs. assert (F ⊆ Full j ∧ F ## H j ∧ H j ⊆ Full j) as (HFs & Hd & HHs).
    { destruct Hinv as (u & h & e & pool & E & nz & fw & I). apply apart. intros b.
      pose proof (word_at _ _ _ _ _ _ _ _ _ _ _ _ _ b I Hi0 HF). pose proof (b2z_01 (bool_decide (b ∈ s.(used) j))).
      simpl in *. lia. }
    assert (F ## M) as HdM by (intros x ??; eapply Hd; eauto). assert (M ⊆ Full j) as HMs by (by etrans).
    revert Hinv Hi0. opened. exists u, h, e, pool, E, nz, fw. closed Hi.
    - rewrite (cnt_insert f_nz _ _ _ _ _ HF). pose proof (free_nz F M HM). sums.
    - rewrite (cnt_insert f_fw _ _ _ _ _ HF) /=. pose proof (free_fw _ _ _ HM HMs HdM). sums.
    - intros k G b HG. rewrite (total_insert _ _ _ _ _ Hi) /=. destruct (decide (j = k)) as [<-|Hne].
      + rewrite list_lookup_insert in HG; [|by eapply lookup_lt_Some]. injection HG as <-.
        rewrite fn_lookup_insert -(Ib _ _ _ HF). pose proof (moved _ _ _ b Hs Hd). sums.
      + rewrite list_lookup_insert_ne // in HG. rewrite fn_lookup_insert_ne // -(Ib _ _ _ HG). sums.
  Qed.
  Lemma hand_out_conserves s ps i xn xf H j M :
    inv s ps → ps !! i = Some (Holding xn xf H) → (j < W)%nat → M ⊆ H j →
    inv (with_blocks s s.(words) (<[j:=s.(used) j ∪ M]> s.(used))) (<[i:=Holding xn xf (<[j:=H j ∖ M]> H)]> ps).
  Proof.
    intros Hinv Hi0 Hj Hs. assert (s.(used) j ## H j) as Hd.
    { destruct Hinv as (u & h & e & pool & E & nz & fw & I).
      assert (∃ F, s.(words) !! j = Some F) as [F HF] by (apply lookup_lt_is_Some; by rewrite (i_words _ _ _ _ _ _ _ _ _ I)).
      apply (apart _ _ (Full j)). intros b.
      pose proof (word_at _ _ _ _ _ _ _ _ _ _ _ _ _ b I Hi0 HF). pose proof (b2z_01 (bool_decide (b ∈ F))).
      simpl in *. lia. }
    revert Hinv Hi0. opened. exists u, h, e, pool, E, nz, fw. closed Hi.
    intros k G b HG. rewrite (total_insert _ _ _ _ _ Hi) /=. rewrite -(Ib _ _ _ HG). destruct (decide (j = k)) as [<-|Hne].
    - rewrite !fn_lookup_insert. pose proof (moved _ _ _ b Hs Hd). sums.
    - rewrite !fn_lookup_insert_ne //. sums.
  Qed.


  (* The anchor's steps. *)
  Lemma faa_conserves s ps i bn bf (now := s.(anchor) + change bn bf) :
    inv s ps → ps !! i = Some (Freed bn bf) → inv (with_anchor s now) (<[i:=after_add now]> ps).
  Proof.
    opened. pose proof (total_at pend_nz ps i _ (λ p, proj1 (pend_nz_01 p)) Hi) as Hpn.
    pose proof (total_at pend_fw ps i _ (λ p, proj1 (pend_fw_01 p)) Hi) as Hpf. simpl in Hpn, Hpf.
    (* It was not EMPTY: this thread's own counts were missing. *)
    assert (E = false) as ->.
    { destruct E; [|done]. destruct (Hfull eq_refl) as (H1 & H2 & _). destruct bn, bf; simpl in *; (done || sums). }
    assert (pool = false) as -> by (destruct pool; [by destruct (Ipo eq_refl)|done]).
    assert (now = enc c u h e (nz + Z.b2z bn) (fw + Z.b2z bf)) as Hnow by (rewrite /now Ia /enc; sums).
    set (E' := negb h && bool_decide (nz + Z.b2z bn = W ∧ fw + Z.b2z bf = W)).
    assert (E' = true ↔ h = false ∧ nz + Z.b2z bn = W ∧ fw + Z.b2z bf = W) as HE'.
    { rewrite /E' andb_true_iff negb_true_iff bool_decide_eq_true //. }
    pose proof (cnt_bound f_nz 0 s.(words)) as Hc1. pose proof (cnt_bound f_fw 0 s.(words)) as Hc2.
    assert (h = false → -262144 ≤ nz + Z.b2z bn ≤ W ∧ -262144 ≤ fw + Z.b2z bf ≤ W) as Hrange.
    { intros Hh. destruct (Howes Hh) as [H1 H2]. pose proof (b2z_01 bn). pose proof (b2z_01 bf). sums. }
    assert (emptyb c W now = E') as Hemp'.
    { rewrite Hnow /E'. destruct h; [by apply emptyb_enc_held|]. destruct (Hrange eq_refl). rewrite (Ieh eq_refl).
      apply emptyb_enc_free; [done|lia|done..]. }
    clearbody E'.
    assert (wants_listing now = u && bool_decide (0 < nz + Z.b2z bn)) as Hwant.
    { rewrite /wants_listing Hnow unlb_enc. destruct u; [|done]. destruct (Hrange (Iu eq_refl)). rewrite nzposb_enc //. sums. }
    assert (unlb now = u) as Hunl' by (rewrite Hnow; apply unlb_enc).
    exists u, h, e, false, E', (nz + Z.b2z bn), (fw + Z.b2z bf).
    clear Hfull Hemp Hsome Hent Hheld Hunl Hpn Hpf Hc1 Hc2 Hrange.
    rewrite /after_add Hemp' Hwant. destruct E'.
    - destruct (proj1 HE' eq_refl) as (-> & Hn & Hf). closed Hi.
      + intros -> _. rewrite Hunl' /=. sums.
      + apply Forall_insert; [done|]. exists u. rewrite Hnow (Ieh eq_refl) Hn Hf //.
    - destruct (u && bool_decide (0 < nz + Z.b2z bn)) eqn:Hw; closed Hi.
      + apply Forall_insert; [done|]. rewrite /= Hunl'. by apply andb_true_iff in Hw as [-> _].
      + intros -> Hp. by rewrite bool_decide_true in Hw.
  Qed.
  Lemma claim_conserves s ps i now :
    inv s ps → ps !! i = Some (Claiming now) → s.(anchor) = now →
    inv (with_anchor s (Z.land now (Z.lnot 1))) (<[i:=Listing]> ps).
  Proof.
    opened. intros Hn. assert (u = true) as -> by congruence. assert (h = false) as -> by auto.
    assert (pool = false) as -> by (destruct pool; [by destruct (Ipo eq_refl)|done]).
    assert (Z.land now (Z.lnot 1) = enc c false false e nz fw) as Hnew.
    { rewrite clear_U // -Hn Ia /enc /=. sums. }
    exists false, false, e, false, E, nz, fw. closed Hi.
  Qed.
  Lemma claim_fails_conserves s ps i now :
    inv s ps → ps !! i = Some (Claiming now) → inv s (<[i:=after_claim s.(anchor)]> ps).
  Proof.
    opened. exists u, h, e, pool, E, nz, fw. rewrite /after_claim. destruct (wants_listing s.(anchor)) eqn:Hw; closed Hi.
    - apply Forall_insert; [done|]. by apply andb_true_iff in Hw as [? _].
    - intros -> Hp. by rewrite /wants_listing Hunl (Hsome (Iu eq_refl)) bool_decide_true in Hw.
  Qed.
  Lemma give_conserves s ps i now :
    inv s ps → ps !! i = Some (Emptied now) →
    inv (with_places s s.(listed) s.(pooled) (s.(out) - 1)) (<[i:=if unlb now then Settling now else Away]> ps).
  Proof.
    opened. destruct Hgood as [u' ->]. exists u, h, e, pool, E, nz, fw. rewrite unlb_enc.
    destruct u'; closed Hi; intros Hu Hp; specialize (Idu Hu Hp); rewrite ?unlb_enc /=; destruct E; sums.
  Qed.
  Lemma settle_conserves s ps i now :
    inv s ps → ps !! i = Some (Settling now) → s.(anchor) = now →
    inv (with_anchor s (Z.land now (Z.lnot 1))) (<[i:=Recycling]> ps).
  Proof.
    opened. intros Hn. rewrite Hgood in Hn.
    assert (u = true) as -> by (rewrite -Hunl Hn; apply unlb_enc). assert (h = false) as -> by auto.
    assert (E = true) as ->.
    { rewrite -Hemp Hn emptyb_enc_free; [by apply bool_decide_true|done|lia..]. }
    destruct (proj1 Iem eq_refl) as (_ & -> & ->).
    assert (pool = false) as -> by (destruct pool; [by destruct (Ipo eq_refl)|done]).
    assert (e = false) as -> by auto.
    assert (Z.land now (Z.lnot 1) = enc c false false false W W) as Hnew.
    { rewrite Hgood clear_U; [|apply unlb_enc]. rewrite /enc /=. sums. }
    exists false, false, false, true, true, W, W. closed Hi.
  Qed.
  Lemma settle_fails_conserves s ps i now :
    inv s ps → ps !! i = Some (Settling now) → s.(anchor) ≠ now → inv s (<[i:=Away]> ps).
  Proof.
    opened. intros Hn. exists u, h, e, pool, E, nz, fw. closed Hi. intros Hu Hp. specialize (Idu Hu Hp). destruct E; [|sums].
    exfalso. apply Hn. destruct (proj1 Iem eq_refl) as (Hh & -> & ->). rewrite Ia Hgood Hu Hh (Ieh Hh) //.
  Qed.

  (* Who has the entry looks: a tombstone is its own now. *)
  Lemma look_conserves s ps i p :
    inv s ps → ps !! i = Some p → p = Popped ∨ (∃ seen, p = Adopting seen) → inv s (<[i:=after_look s.(anchor)]> ps).
  Proof.
    intros Hinv Hi0 Hp0.
    assert (∀ j b, in_hand j b p = 0 ∧ pend_nz p = 0 ∧ pend_fw p = 0 ∧ holding p = 0 ∧ owes_nz p = 0 ∧ owes_fw p = 0 ∧
      entry p = 1 ∧ descriptor p = 0 ∧ span p = 0 ∧ claims p = 0 ∧ settles p = 0) as Hp
      by (by destruct Hp0 as [->|[? ->]]).
    clear Hp0. destruct (Hp 0%nat 0) as (_&H1&H2&H3&H4&H5&H6&H7&H8&H9&H10). revert Hinv Hi0. opened.
    assert (∀ j b, in_hand j b p = 0) as Hp' by (intros j b; by destruct (Hp j b)).
    clear Hp. rewrite H6 in Hen1. rewrite /after_look. destruct (emptyb c W s.(anchor)) eqn:He.
    - subst E. destruct (proj1 Iem eq_refl) as (-> & -> & ->).
      assert (u = false ∧ pool = false) as [-> ->] by (destruct u, pool; simpl in *; (done || sums)).
      exists false, false, e, true, true, W, W. closed Hi.
      intros j F b HF. rewrite (total_insert _ _ _ _ _ Hi) /= Hp' -(Ib _ _ _ HF). sums.
    - subst E. exists u, h, e, pool, false, nz, fw. closed Hi.
      intros j F b HF. rewrite (total_insert _ _ _ _ _ Hi) /= Hp' -(Ib _ _ _ HF). sums.
  Qed.
  Lemma adopt_conserves s ps i seen :
    inv s ps → ps !! i = Some (Adopting seen) → s.(anchor) = seen →
    inv (with_anchor s (popped c W seen).1) (<[i:=after_adopt (popped c W seen).2]> ps).
  Proof.
    opened. intros <-. rewrite Hgood in Hemp. subst E.
    assert (pool = false) as -> by (destruct pool; [by destruct (Ipo eq_refl)|done]).
    rewrite /popped Hgood Hheld. destruct h.
    - change (inv (with_anchor s (Z.land (anchor s) (Z.lnot 1024))) (<[i:=Away]> ps)).
      assert (e = true) as -> by (destruct e; simpl in *; (done || sums)).
      assert (u = false) as -> by (destruct u; [by specialize (Iu eq_refl)|done]).
      assert (Z.land (anchor s) (Z.lnot 1024) = enc c false true false nz fw) as Hnew.
      { rewrite clear_ENTRY // Ia /enc /=. sums. }
      exists false, true, false, false, false, nz, fw. closed Hi.
    - assert (u = false) as -> by (destruct u; simpl in *; (done || sums)). assert (e = false) as -> by auto.
      destruct (Howes eq_refl) as [Ho1 Ho2]. rewrite (Hsome eq_refl).
      destruct (bool_decide (0 < nz)) eqn:Hp; [apply bool_decide_eq_true in Hp|apply bool_decide_eq_false in Hp].
      + change (inv (with_anchor s (Z.lor (anchor s) 2)) (<[i:=Holding 0 0 nothing]> ps)).
        assert (Z.lor (anchor s) 2 = enc c false true false nz fw) as Hnew.
        { rewrite set_HELD // Ia /enc /=. sums. }
        exists false, true, false, false, false, nz, fw. closed Hi.
      + change (inv (with_anchor s (Z.lor (anchor s) 1)) (<[i:=Away]> ps)).
        assert (Z.lor (anchor s) 1 = enc c true false false nz fw) as Hnew.
        { rewrite set_U // Ia /enc /=. sums. }
        exists true, false, false, false, false, nz, fw. closed Hi.
  Qed.
  Lemma take_at_conserves s ps i seen :
    inv s ps → ps !! i = Some (Found seen) → s.(anchor) = seen →
    inv (with_anchor s (Z.lor seen 1026)) (<[i:=Holding 0 0 nothing]> ps).
  Proof.
    opened. intros <-. rewrite /may_take !andb_true_iff !negb_true_iff in Hgood. destruct Hgood as [[[Hh Hu] Hn] He].
    assert (h = false) as -> by congruence. assert (u = false) as -> by congruence. assert (E = false) as -> by congruence.
    assert (e = false) as -> by auto. assert (pool = false) as -> by (destruct pool; [by destruct (Ipo eq_refl)|done]).
    assert (Z.lor (anchor s) 1026 = enc c false true true nz fw) as Hnew.
    { rewrite set_HELD_ENTRY // Ia /enc /=. sums. }
    exists false, true, true, false, false, nz, fw. closed Hi.
  Qed.

  (* The holder's last step. *)
  Lemma let_go_conserves s ps i xn xf seen :
    inv s ps → ps !! i = Some (LettingGo xn xf seen) → s.(anchor) = seen →
    inv (with_anchor s (let_go c W seen (owed xn xf)).1) (<[i:=after_let_go (let_go c W seen (owed xn xf)).2]> ps).
  Proof.
    opened. intros <-.
    assert (h = true) as -> by (destruct h; simpl in *; (done || sums)).
    assert (total owes_nz ps = xn) as Hxn.
    { apply (total_sole holding owes_nz ps i (LettingGo xn xf (anchor s)) holding_01 owes_nz_holder Hi). by rewrite Ih. }
    assert (total owes_fw ps = xf) as Hxf.
    { apply (total_sole holding owes_fw ps i (LettingGo xn xf (anchor s)) holding_01 owes_fw_holder Hi). by rewrite Ih. }
    assert (u = false) as -> by (destruct u; [by specialize (Iu eq_refl)|done]).
    assert (E = false) as -> by (destruct E; [by destruct (proj1 Iem eq_refl)|done]).
    assert (pool = false) as -> by (destruct pool; [by destruct (Ipo eq_refl)|done]).
    rewrite /let_go Hent. cbv zeta. set (n := s.(anchor) - owed xn xf - 2 - (if e then 1024 else 0)).
    assert (n = enc c false false false (nz - xn) (fw - xf)) as Hn.
    { rewrite /n Ia /enc. destruct e; simpl; sums. }
    rewrite Hxn Hxf in Hbounds. destruct Hbounds as (Hb1 & Hb2 & Hb3 & Hb4).
    set (E' := bool_decide (nz - xn = W ∧ fw - xf = W)).
    assert (E' = true ↔ nz - xn = W ∧ fw - xf = W) as HE' by apply bool_decide_eq_true.
    assert (emptyb c W n = E') as -> by (rewrite Hn; apply emptyb_enc_free; [done|lia|done..]).
    assert (nzposb n = bool_decide (0 < nz - xn)) as Hpos by (rewrite Hn; apply nzposb_enc; [done|sums]).
    assert (Z.lor n 1 = enc c true false false (nz - xn) (fw - xf)) as HU.
    { rewrite Hn set_U; [|apply unlb_enc]. rewrite /enc /=. sums. }
    assert (E' = true ↔ false = false ∧ nz - xn = W ∧ fw - xf = W) as HE2 by (rewrite HE'; clear; naive_solver).
    clearbody E' n. clear Hfull Hemp Hsome Hent Hheld Hunl Howes HE'. destruct E'; [destruct e|destruct e].
    - change (inv (with_anchor s n) (<[i:=GivingBack true]> ps)).
      exists false, false, false, false, true, (nz - xn), (fw - xf). closed Hi.
    - change (inv (with_anchor s n) (<[i:=GivingBack false]> ps)).
      exists false, false, false, true, true, (nz - xn), (fw - xf). closed Hi.
    - change (inv (with_anchor s n) (<[i:=Away]> ps)).
      exists false, false, false, false, false, (nz - xn), (fw - xf). closed Hi.
    - rewrite Hpos. destruct (bool_decide (0 < nz - xn)) eqn:Hp; [|apply bool_decide_eq_false in Hp].
      + change (inv (with_anchor s n) (<[i:=Listing]> ps)).
        exists false, false, false, false, false, (nz - xn), (fw - xf). closed Hi.
      + change (inv (with_anchor s (Z.lor n 1)) (<[i:=Away]> ps)).
        exists true, false, false, false, false, (nz - xn), (fw - xf). closed Hi.
  Qed.

  (* make writes words that are full already, then the anchor. *)
  Lemma maker_is_alone s ps i j :
    inv s ps → ps !! i = Some (Writing j) → ∀ k F, s.(words) !! k = Some F → F = Full k.
  Proof.
    opened. assert (pool = true) as -> by (destruct pool; simpl in *; (done || sums)).
    destruct (Ipo eq_refl) as [-> ->]. by destruct (Hfull eq_refl) as (_ & _ & ?).
  Qed.
  Lemma write_conserves s ps i j :
    inv s ps → ps !! i = Some (Writing j) →
    inv (with_blocks s (<[j:=Full j]> s.(words)) s.(used)) (<[i:=Writing (S j)]> ps).
  Proof.
    intros Hinv Hi0. assert (<[j:=Full j]> s.(words) = s.(words)) as ->.
    { destruct (s.(words) !! j) as [F|] eqn:HF; [|by apply list_insert_ge, lookup_ge_None].
      rewrite -(maker_is_alone _ _ _ _ Hinv Hi0 _ _ HF). by apply list_insert_id. }
    revert Hinv Hi0. opened. exists u, h, e, pool, E, nz, fw. closed Hi.
  Qed.
  Lemma born_conserves s ps i :
    inv s ps → ps !! i = Some (Writing W) → inv (with_anchor s (born c W)) (<[i:=Holding 0 0 nothing]> ps).
  Proof.
    opened. assert (pool = true) as -> by (destruct pool; simpl in *; (done || sums)).
    destruct (Ipo eq_refl) as [-> ->]. destruct (proj1 Iem eq_refl) as (-> & -> & ->).
    assert (born c W = enc c false true false W W) as Hnew by (by apply born_enc).
    exists false, true, false, false, false, W, W. closed Hi.
  Qed.

  (* Every step. *)
  Lemma move_conserves s ps i p s' p' : inv s ps → ps !! i = Some p → move s p s' p' → inv s' (<[i:=p']> ps).
  Proof.
    intros Hinv Hi Hm. destruct Hm.
    - by apply free_conserves. - by apply faa_conserves. - by eapply claim_conserves. - by eapply claim_fails_conserves.
    - by apply give_conserves. - by eapply settle_conserves. - by eapply settle_fails_conserves. - by apply list_conserves.
    - by apply recycle_conserves. - by apply pop_conserves. - eapply look_conserves; eauto. - by eapply adopt_conserves.
    - eapply look_conserves; eauto. - by apply found_conserves. - by eapply take_at_conserves.
    - by eapply take_at_fails_conserves. - by apply take_conserves. - by apply put_conserves. - by apply hand_out_conserves.
    - by eapply load_conserves. - by eapply let_go_conserves. - by eapply let_go_fails_conserves. - by apply give_back_conserves.
    - by apply reuse_conserves. - by apply no_span_conserves. - by apply span_conserves. - by apply write_conserves.
    - by apply born_conserves.
  Qed.
  Lemma first_conserves T : Z.of_nat T < 262144 → inv (first T).(sb) (first T).(activities).
  Proof.
    intros HT. assert (∀ f : activity → Z, f Away = 0 → total f (replicate T Away) = 0) as H0.
    { intros f Hf. clear HT. induction T as [|n IH]; simpl; [done|]. by rewrite Hf IH. }
    exists false, false, false, true, true, W, W. split; simpl;
      rewrite ?(H0 pend_nz eq_refl) ?(H0 pend_fw eq_refl) ?(H0 holding eq_refl) ?(H0 owes_nz eq_refl) ?(H0 owes_fw eq_refl)
        ?(H0 entry eq_refl) ?(H0 descriptor eq_refl) ?(H0 span eq_refl); try done.
    - rewrite /empty_state /enc /=. lia.
    - by rewrite fmap_length seq_length.
    - rewrite cnt_all; [by rewrite fmap_length seq_length; lia|]. intros j F. rewrite list_lookup_fmap.
      intros (k & _ & ->)%fmap_Some. by apply bool_decide_true.
    - rewrite cnt_all; [by rewrite fmap_length seq_length; lia|]. intros j F. rewrite list_lookup_fmap.
      intros (k & [-> _]%lookup_seq & ->)%fmap_Some. by apply bool_decide_true.
    - intros j F b. rewrite list_lookup_fmap. intros (k & [-> _]%lookup_seq & ->)%fmap_Some. rewrite (H0 (in_hand j b) eq_refl).
      rewrite (bool_decide_false (b ∈ nothing j)); [simpl; lia|]. rewrite /nothing. set_solver.
    - by apply Forall_replicate.
    - by rewrite replicate_length.
  Qed.
  Lemma reached_inv T s : Z.of_nat T < 262144 → reached T s → inv s.(sb) s.(activities).
  Proof.
    intros HT. unfold reached. generalize (first_conserves T HT). generalize (first T). intros s0 Hinv Hr. revert Hinv.
    induction Hr as [|s0 s1 s2 [i p sb' p' Hi Hm] _ IH]; [done|]. intros Hinv. apply IH. simpl. by eapply move_conserves.
  Qed.

  (* Nothing is lost ----------------------------------------------------------------------------------------------- *)

  (* Nobody is inside: an activity is away, or it holds the superblock and has no block in its hands. *)
  Definition quiet (p : activity) : Prop := match p with Away => True | Holding _ _ H => ∀ j, H j = ∅ | _ => False end.
  Definition all_free (s : superblock) : Prop := ∀ j F, s.(words) !! j = Some F → F = Full j.
  Definition none_free (s : superblock) : Prop := ∀ j F, s.(words) !! j = Some F → F = ∅.

  Lemma quiet_total (f : activity → Z) ps : (∀ p, quiet p → f p = 0) → Forall quiet ps → total f ps = 0.
  Proof. intros Hf. induction 1 as [|p r Hp _ IH]; simpl; [done|]. by rewrite IH (Hf p Hp). Qed.

  Definition conserved (s : state) : Prop := let b := s.(sb) in
    (* A block is free in its word, or the program has it. *)
    (∀ j F i, b.(words) !! j = Some F → i ∈ Full j → i ∈ F ∧ i ∉ b.(used) j ∨ i ∉ F ∧ i ∈ b.(used) j) ∧
    (* Held, with its span and at most one entry.   Empty: its span is back, and the descriptor is in the pool, or comes
       there from a list.   In a list, once.   No block is free: the first that is freed will list it. *)
    (total holding s.(activities) = 1 ∧ b.(out) = 1 ∧ b.(pooled) = 0 ∧ b.(listed) ≤ 1 ∨
     total holding s.(activities) = 0 ∧ (
       all_free b ∧ b.(out) = 0 ∧ b.(pooled) + b.(listed) = 1 ∨
       ¬ all_free b ∧ b.(out) = 1 ∧ b.(pooled) = 0 ∧ b.(listed) = 1 ∨
       ¬ all_free b ∧ none_free b ∧ b.(out) = 1 ∧ b.(pooled) = 0 ∧ b.(listed) = 0 ∧ unlb b.(anchor) = true)).

  Theorem nothing_is_lost T s : Z.of_nat T < 262144 → reached T s → Forall quiet s.(activities) → conserved s.
  Proof.
    intros HT Hr Hq. destruct (reached_inv T s HT Hr) as (u & h & e & pool & E & nz & fw & I).
    rewrite /conserved. set (b := s.(sb)) in *.
    pose proof (owes_nothing I) as Howes. pose proof (full_here I) as Hfull. pose proof (unl_here I) as Hunl.
    destruct I as [Ia Il Inz Ifw Ih Iu Ieh Iem Ipo Ien Ide Isp Idu Ib Ipl Iso Iac]. revert Inz Ifw Ien Ide Isp Idu Ib.
    rewrite !(quiet_total pend_nz, quiet_total pend_fw, quiet_total entry, quiet_total descriptor, quiet_total span,
      quiet_total claims, quiet_total settles) //; try by intros [].
    intros Inz Ifw Ien Ide Isp Idu Ib. split.
    { intros j F i HF Hi. assert (total (in_hand j i) (activities s) = 0) as Hn.
      { apply quiet_total; [|done]. intros []; simpl; try done. intros H0. rewrite H0 bool_decide_false; [done|apply not_elem_of_empty]. }
      specialize (Ib j F i HF). rewrite Hn (bool_decide_true (i ∈ Full j)) // in Ib.
      repeat case_bool_decide; simpl in *; first [by left|by right|lia]. }
    destruct h; [left|right].
    - assert (E = false) as -> by (destruct E; [by destruct (proj1 Iem eq_refl)|done]).
      assert (pool = false) as -> by (destruct pool; [by destruct (Ipo eq_refl)|done]).
      pose proof (b2z_01 (negb e)). simpl in *. split_and!; lia.
    - split; [done|]. destruct E.
      + left. destruct (proj1 Iem eq_refl) as (_ & H1 & _).
        assert (u = false) as -> by (destruct u; [specialize (Idu eq_refl); lia|done]). simpl in *.
        split_and!; [|lia..]. by destruct (Hfull eq_refl) as (_ & _ & ?).
      + right. assert (pool = false) as -> by (destruct pool; [by destruct (Ipo eq_refl)|done]).
        destruct (Howes eq_refl) as [H1 H2].
        assert (¬ all_free b) as Hnot.
        { intros Hall. assert (cnt f_nz 0 (words b) = W ∧ cnt f_fw 0 (words b) = W) as [H3 H4].
          { rewrite !cnt_all; [by rewrite Il| |]; intros j F HF; rewrite (Hall j F HF); by apply bool_decide_true. }
          assert (false = true) as ?; [|done]. apply Iem. split_and!; [done|lia..]. }
        destruct u; [right|left]; simpl in *; [|split_and!; (done || lia)].
        split_and!; try (done || lia). intros j F HF. assert (cnt f_nz 0 (words b) = 0) as Hz.
        { pose proof (cnt_bound f_nz 0 (words b)). destruct (decide (0 < nz)) as [Hp|Hp]; [|lia]. specialize (Idu eq_refl Hp). lia. }
        pose proof (cnt_none _ _ _ Hz j F HF) as Hn. apply bool_decide_eq_false in Hn. by apply dec_stable.
  Qed.
End system.

(* A heap: superblocks of any classes and shapes. Each step is one's, so what is true of one is true of all. *)
Section heap.
  Context (c : nat → Z) (W : nat → nat) (Full : nat → nat → gset Z) (K T : nat) (HT : Z.of_nat T < 262144).
  Context (HW : ∀ d, (0 < W d)%nat) (HWT : ∀ d, Z.of_nat (W d) < 262144) (Hc : ∀ d, 0 ≤ c d < 256).
  Context (HFull : ∀ d j, Full d j ≠ ∅).

  Inductive heap_step (hs : list state) : list state → Prop :=
    heap_step_at d s s' : hs !! d = Some s → step (c d) (W d) (Full d) s s' → heap_step hs (<[d:=s']> hs).
  Definition heap_first : list state := (λ d, first (c d) (W d) (Full d) T) <$> seq 0 K.

  Lemma heap_reached hs d s : rtc heap_step heap_first hs → hs !! d = Some s → reached (c d) (W d) (Full d) T s.
  Proof.
    intros Hr. revert d s. revert hs Hr.
    apply (rtc_ind_r (λ hs, ∀ d s, hs !! d = Some s → reached (c d) (W d) (Full d) T s) heap_first).
    - intros d s Hd. rewrite /heap_first list_lookup_fmap in Hd. apply fmap_Some in Hd as (k & [-> _]%lookup_seq & ->).
      apply rtc_refl.
    - intros hs1 hs2 _ [d0 s0 s1 Hd0 Hs0] IH d s [(-> & -> & _)|(Hne & Hd)]%list_lookup_insert_Some; [|by apply IH].
      eapply rtc_r; [by apply IH|done].
  Qed.
  Theorem heap_loses_nothing hs d s :
    rtc heap_step heap_first hs → hs !! d = Some s → Forall quiet s.(activities) → conserved (Full d) s.
  Proof. intros Hr Hd Hq. apply (nothing_is_lost (c d) (W d) (Full d)) with T; auto. by eapply heap_reached. Qed.
End heap.
