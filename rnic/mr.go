// The Memory Region: memory exposed to the peer, and the single place that checks access to it.

package rnic

import (
	"errors"
	"sync"
	"sync/atomic"
)

// An MR is memory with an STag. Any goroutine may call its methods.
type MR struct {
	// set once
	pd    *PD
	index uint32
	base  uint64

	stag atomic.Uint32 // written under mu
	gone atomic.Bool   // deregistered; written under mu

	// mu is held for reading while bytes are placed in buf or a segment is made from it, and for
	// writing to change the fields below. So a state change returns only when no placement runs
	// (RFC 5040 §8.1.1 [R5040-209]).
	mu     sync.RWMutex
	valid  bool
	access Access
	buf    []byte
	qp     *QP // if not nil, the only QP that may use it

	// pins counts the pending transmissions that point into buf.
	pins atomic.Int32
}

var errMRValid = errors.New("rnic: the memory region is valid; invalidate it first")

// STag returns the region's STag; Rereg changes it.
func (mr *MR) STag() STag { return STag(mr.stag.Load()) }

// Base returns the tagged offset of the first byte.
func (mr *MR) Base() uint64 { return mr.base }

// Len returns the registered buffer's length in bytes, 0 if invalid.
func (mr *MR) Len() int {
	mr.mu.RLock()
	defer mr.mu.RUnlock()
	return len(mr.buf)
}

// Valid reports whether the STag is usable: a remote invalidation clears it.
func (mr *MR) Valid() bool {
	mr.mu.RLock()
	defer mr.mu.RUnlock()
	return mr.valid
}

// Rereg makes an invalid MR valid for another buffer, with a new key. It does not allocate.
func (mr *MR) Rereg(buf []byte, access Access) error {
	mr.mu.Lock()
	defer mr.mu.Unlock()
	if mr.gone.Load() {
		return ErrClosed
	}
	if mr.valid {
		return errMRValid
	}
	// The key visits all 256 values, in no fixed stride (RFC 5042 §6.1 [R5040-250]).
	key := uint8(mr.stag.Load())*93 + 17
	mr.stag.Store(mr.index<<8 | uint32(key))
	mr.buf, mr.access, mr.valid = buf, access, true
	return nil
}

// Bind limits the MR to one QP of its PD (RFC 5041 §8.2 [R5041-126]); nil lifts the limit.
func (mr *MR) Bind(qp *QP) {
	mr.mu.Lock()
	mr.qp = qp
	mr.mu.Unlock()
}

// Invalidate returns only when the peer can no longer place bytes in the MR or read from it.
// Invalidating an invalid MR is no error.
func (mr *MR) Invalidate() {
	mr.mu.Lock()
	mr.valid = false
	mr.buf = nil
	mr.mu.Unlock()
	mr.release()
}

// Divert replaces a valid MR's memory with buf, memory of the same length: from then on the peer
// reads and writes buf under its known STag. Like Invalidate it returns only when nothing is placed
// in, or sent from, the old memory. Use it to take memory back while the peer may still use the
// STag, which would be a fault after an invalidation. false: the MR was not valid, or buf had
// another length; the MR is then invalid. Divert is not for a posted Read's sink.
func (mr *MR) Divert(buf []byte) bool {
	mr.mu.Lock()
	ok := mr.valid && len(buf) == len(mr.buf)
	if ok {
		mr.buf = buf
	} else {
		mr.valid, mr.buf = false, nil
	}
	mr.mu.Unlock()
	mr.release()
	return ok
}

// release returns once no pending transmission points into mr's former memory. Call it for an
// already invalid mr too: the goroutine that invalidated mr may still be in its own release.
func (mr *MR) release() {
	if mr.pins.Load() == 0 {
		return
	}
	for _, qp := range mr.pd.each() {
		qp.ep.Release(mr)
	}
}

// Dereg invalidates the MR and gives its STag index back.
func (mr *MR) Dereg() {
	mr.Invalidate()
	mr.mu.Lock()
	mr.gone.Store(true)
	mr.mu.Unlock()
	mr.pd.dev.stags.remove(mr)
}

// A MemFault is a reason to refuse access to a Memory Region, in the order of the checks.
type MemFault uint8

// The faults.
const (
	MemOK     MemFault = iota
	MemSTag            // unknown index, wrong key, or not valid
	MemAssoc           // belongs to another PD or QP
	MemAccess          // right not granted
	MemWrap            // tagged offset + length passes 2^64
	MemBounds          // outside the registered range
	MemAlign           // atomic operation on unaligned bytes
)

// check returns the offset in buf of the n bytes at tagged offset to, or the fault if qp lacks the
// right need to them under stag. The caller holds mr.mu while it uses the bytes. Every check is in
// bytes and precedes any access (RFC 5041 §7.1, §8.1).
func (mr *MR) check(qp *QP, stag STag, to uint64, n uint64, need Access) (off int, f MemFault) {
	switch {
	case !mr.valid || STag(mr.stag.Load()) != stag:
		return 0, MemSTag
	case mr.pd != qp.pd || mr.qp != nil && mr.qp != qp:
		return 0, MemAssoc
	case mr.access&need != need:
		return 0, MemAccess
	case to+n < to:
		return 0, MemWrap
	case to < mr.base || to-mr.base > uint64(len(mr.buf)) || n > uint64(len(mr.buf))-(to-mr.base):
		return 0, MemBounds
	}
	return int(to - mr.base), MemOK
}

// remoteInvalidate performs the invalidation for a Send with Invalidate: MemSTag if stag is not
// valid here, MemAssoc unless this stream alone owns it. Streams must not invalidate an STag shared
// with others (RFC 5040 §8.1.1 [R5040-210]).
func (d *Device) remoteInvalidate(qp *QP, stag STag) MemFault {
	mr := d.stags.lookup(stag)
	if mr == nil {
		return MemSTag
	}
	mr.mu.Lock()
	if !mr.valid || STag(mr.stag.Load()) != stag {
		mr.mu.Unlock()
		return MemSTag
	}
	if mr.pd != qp.pd || mr.qp != nil && mr.qp != qp || mr.qp == nil && !mr.pd.sole(qp) {
		mr.mu.Unlock()
		return MemAssoc
	}
	mr.valid, mr.buf = false, nil
	mr.mu.Unlock()
	mr.release()
	return MemOK
}
