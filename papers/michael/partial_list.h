// SPDX-License-Identifier: MIT
// partial_list.h: ListGetPartial, ListPutPartial and ListRemoveEmptyDesc (Michael 2004, §3.2.6), first in first out
// (what the paper prefers) or last in first out.
//
// ListRemoveEmptyDesc is called when a listed descriptor has become EMPTY. It need not be that one which goes:
//           FIFO  takes descriptors from the head until one is EMPTY (it goes) or two are not (they go to the tail)
//           LIFO  takes the first EMPTY one out, wherever it is
// What that bounds: papers/michael/README.md. Each EMPTY descriptor costs 64 bytes; its superblock is gone already.
#pragma once

#include "papers/michael/fifo.h"
#include "papers/michael/lifo.h"

namespace freeway::michael {

enum class ListKind { kFifo, kLifo };

template <class Env> class PartialList {
 public:
  // Once, before anyone else sees the list.
  void init(ListKind kind, u32 dummy) {
    kind_ = kind;
    fifo_.init(dummy);
  }

  template <class Nodes> void put(Descriptor<Env>& desc, Nodes&& nodes) {
    kind_ == ListKind::kFifo ? fifo_.put(desc, nodes) : lifo_.put(desc, nodes);
  }
  template <class Nodes> Descriptor<Env>* get(Nodes&& nodes) {
    return kind_ == ListKind::kFifo ? fifo_.get(nodes) : lifo_.get(nodes);
  }
  // An EMPTY descriptor that was listed, for the caller to retire; null if the rule found none.
  template <class Nodes> Descriptor<Env>* remove_empty(Nodes&& nodes) {
    if (kind_ == ListKind::kLifo) return lifo_.take(nodes, is_empty);
    for (int moved = 0; moved < 2; ++moved) {
      Descriptor<Env>* desc = fifo_.get(nodes);
      if (desc == nullptr || is_empty(*desc)) return desc;
      fifo_.put(*desc, nodes);
    }
    return nullptr;
  }

  template <class Nodes, class F> void each(Nodes&& nodes, F&& f) const {
    kind_ == ListKind::kFifo ? fifo_.each(nodes, f) : lifo_.each(nodes, f);
  }

 private:
  // EMPTY is for ever, until the descriptor's owner retires it.
  static bool is_empty(Descriptor<Env>& desc) {
    return anchor::state(desc.anchor.load_acquire()) == anchor::kEmpty;  // [A1] pairs with michael/proc_heap.h:[R1]
  }

  ListKind kind_ = ListKind::kFifo;
  Fifo<Env> fifo_;
  Lifo<Env> lifo_;
};

}  // namespace freeway::michael
