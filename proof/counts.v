(* SPDX-License-Identifier: MIT *)
(* counts.v: how many words are not empty, how many are full, and what a step on a word changes of the two. No Iris.

   Stands for  anchor.h's fact I3: the anchor counts words. A word is the set of its free blocks *)
From Coq Require Import ssreflect ZArith Lia.
From stdpp Require Import gmap.
From freeway Require Import anchor.
From iris.prelude Require Import options.
Open Scope Z_scope.

(* How many words have the property f, which may depend on the word's index; the first of Fs is word k. *)
Fixpoint cnt (f : nat → gset Z → bool) (k : nat) (Fs : list (gset Z)) : Z :=
  match Fs with [] => 0 | F :: r => Z.b2z (f k F) + cnt f (S k) r end.
Lemma cnt_bound f k Fs : 0 ≤ cnt f k Fs ≤ Z.of_nat (length Fs).
Proof. revert k. induction Fs as [|F r IH]; intros k; simpl; [lia|]. pose proof (b2z_01 (f k F)). pose proof (IH (S k)). lia. Qed.
Lemma cnt_insert f k Fs j F F' :
  Fs !! j = Some F → cnt f k (<[j:=F']> Fs) = cnt f k Fs + Z.b2z (f (k + j)%nat F') - Z.b2z (f (k + j)%nat F).
Proof.
  revert k j. induction Fs as [|G r IH]; intros k [|j] Hj; simplify_eq/=; [rewrite Nat.add_0_r; lia|].
  rewrite (IH (S k) j) //. replace (k + S j)%nat with (S k + j)%nat by lia. lia.
Qed.
Lemma cnt_full f k Fs : cnt f k Fs = Z.of_nat (length Fs) → ∀ j F, Fs !! j = Some F → f (k + j)%nat F = true.
Proof.
  revert k. induction Fs as [|G r IH]; intros k Hc j F Hj; [done|]. simpl in Hc.
  pose proof (cnt_bound f (S k) r). pose proof (b2z_01 (f k G)).
  destruct j as [|j]; simplify_eq/=.
  - rewrite Nat.add_0_r. destruct (f k F); [done|simpl in *; lia].
  - replace (k + S j)%nat with (S k + j)%nat by lia. eapply IH; [lia|done].
Qed.
Lemma cnt_none f k Fs : cnt f k Fs = 0 → ∀ j F, Fs !! j = Some F → f (k + j)%nat F = false.
Proof.
  revert k. induction Fs as [|G r IH]; intros k Hc j F Hj; [done|]. simpl in Hc.
  pose proof (cnt_bound f (S k) r). pose proof (b2z_01 (f k G)).
  destruct j as [|j]; simplify_eq/=.
  - rewrite Nat.add_0_r. destruct (f k F); [simpl in *; lia|done].
  - replace (k + S j)%nat with (S k + j)%nat by lia. eapply IH; [lia|done].
Qed.
Lemma cnt_all f k Fs : (∀ j F, Fs !! j = Some F → f (k + j)%nat F = true) → cnt f k Fs = Z.of_nat (length Fs).
Proof.
  revert k. induction Fs as [|G r IH]; intros k Ha; simpl; [lia|].
  pose proof (Ha 0%nat G eq_refl) as H0. rewrite Nat.add_0_r in H0. rewrite H0 (IH (S k)); [simpl; lia|].
  intros j F Hj. replace (S k + j)%nat with (k + S j)%nat by lia. by apply Ha.
Qed.

(* What a step on a word changes of the two counts; Full is a set that is not empty. *)
Definition nzb (F : gset Z) : bool := bool_decide (F ≠ ∅).
Definition fwb (Full F : gset Z) : bool := bool_decide (F = Full).
Lemma free_nz (F M : gset Z) : M ≠ ∅ → Z.b2z (nzb (F ∪ M)) = Z.b2z (nzb F) + Z.b2z (bool_decide (F = ∅)).
Proof.
  intros HM. rewrite /nzb (bool_decide_true (F ∪ M ≠ ∅)); [|intros [_ ?]%empty_union_L; done].
  destruct (decide (F = ∅)) as [->|Hn]; [done|]. by rewrite bool_decide_true // bool_decide_false.
Qed.
Lemma free_fw (Full F M : gset Z) : M ≠ ∅ → M ⊆ Full → F ## M →
  Z.b2z (fwb Full (F ∪ M)) = Z.b2z (fwb Full F) + Z.b2z (bool_decide (F ∪ M = Full)).
Proof.
  intros HM Hs Hd. rewrite /fwb (bool_decide_false (F = Full)); [done|]. intros ->.
  apply set_choose_L in HM as [i Hi]. apply (Hd i); [by apply Hs|done].
Qed.
Lemma take_nz (F M : gset Z) :
  Z.b2z (nzb (F ∖ M)) = Z.b2z (nzb F) - Z.b2z (bool_decide (F ∩ M ≠ ∅ ∧ F ∩ M = F)).
Proof.
  rewrite /nzb. destruct (decide (F = ∅)) as [->|Hn].
  { rewrite (bool_decide_false (_ ∧ _)); [|set_solver]. assert ((∅ : gset Z) ∖ M = ∅) as -> by set_solver. simpl; lia. }
  rewrite (bool_decide_true (F ≠ ∅)) //. destruct (decide (F ⊆ M)) as [Hs|Hs].
  - rewrite bool_decide_false; [|intros H; apply H; set_solver]. rewrite bool_decide_true; [done|]. split; set_solver.
  - rewrite bool_decide_true; [|intros H; apply Hs; set_solver]. rewrite bool_decide_false; [done|]. intros [_ H]. set_solver.
Qed.
Lemma take_fw (Full F M : gset Z) : F ⊆ Full →
  Z.b2z (fwb Full (F ∖ M)) = Z.b2z (fwb Full F) - Z.b2z (bool_decide (F ∩ M ≠ ∅ ∧ F = Full)).
Proof.
  intros Hs. rewrite /fwb. destruct (decide (F ∩ M = ∅)) as [He|He].
  - assert (F ∖ M = F) as -> by set_solver. rewrite (bool_decide_false (_ ∧ _)); [simpl; lia|naive_solver].
  - rewrite (bool_decide_false (F ∖ M = Full)).
    2:{ intros <-. apply He. set_solver. }
    rewrite (bool_decide_ext (F ∩ M ≠ ∅ ∧ F = Full) (F = Full)); [change (Z.b2z false) with 0; lia|naive_solver].
Qed.
