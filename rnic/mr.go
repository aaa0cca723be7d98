// The Memory Region: where the peer may read and write, and the one place that checks whether it
// may.

package rnic

import (
	"errors"
	"sync"
	"sync/atomic"
)

// An MR is memory that has an STag. Its methods may be called from any goroutine.
type MR struct {
	// set once
	pd    *PD
	index uint32
	base  uint64

	stag atomic.Uint32 // written under mu
	gone atomic.Bool   // deregistered; written under mu

	// mu is held for reading while bytes are placed in buf or a segment is
	// made of it, and for writing to change what follows. So a state change
	// returns only when no placement runs (RFC 5040 §8.1.1 [R5040-209]).
	mu     sync.RWMutex
	valid  bool
	access Access
	buf    []byte
	qp     *QP // when not nil, the only QP that may use it

	// pins counts what waits to be sent and points into buf.
	pins atomic.Int32
}

var errMRValid = errors.New("rnic: the memory region is valid; invalidate it first")

// STag returns the name of the region; Rereg changes it.
func (mr *MR) STag() STag { return STag(mr.stag.Load()) }

// Base is the tagged offset of the first byte.
func (mr *MR) Base() uint64 { return mr.base }

// Len is the length of the registered buffer in bytes, 0 when invalid.
func (mr *MR) Len() int {
	mr.mu.RLock()
	defer mr.mu.RUnlock()
	return len(mr.buf)
}

// Valid reports whether the STag may be used: a remote invalidation clears it.
func (mr *MR) Valid() bool {
	mr.mu.RLock()
	defer mr.mu.RUnlock()
	return mr.valid
}

// Rereg makes an invalid MR valid again for another buffer, with a new key. It does not allocate.
func (mr *MR) Rereg(buf []byte, access Access) error {
	mr.mu.Lock()
	defer mr.mu.Unlock()
	if mr.gone.Load() {
		return ErrClosed
	}
	if mr.valid {
		return errMRValid
	}
	key := uint8(mr.stag.Load())*93 + 17 // through all 256, in no fixed stride (RFC 5042 §6.1 [R5040-250])
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

// Invalidate returns only when no byte can be placed in, or read from, the MR
// any more by the peer. Invalidating an invalid MR is no error.
func (mr *MR) Invalidate() {
	mr.mu.Lock()
	mr.valid = false
	mr.buf = nil
	mr.mu.Unlock()
	mr.release()
}

// Divert exchanges the memory of a valid MR for other memory of the same length:
// from then on the peer reads and writes that, under the STag that it has. Like
// Invalidate it returns only when nothing is placed in, or sent from, the memory
// before. It is for giving memory back while the peer may still use the STag, which
// would be a fault once it is invalid. false: the MR was not valid, and has no memory.
// It is not for the sink of a Read that has been posted.
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

// release returns once nothing that waits to be sent points into the memory that mr had. It is
// called also when mr was invalid already: whoever made it so might not have come to that yet.
func (mr *MR) release() {
	if mr.pins.Load() == 0 {
		return
	}
	for _, qp := range mr.pd.each() {
		qp.ep.Release(mr)
	}
}

// Dereg invalidates and gives the STag index back.
func (mr *MR) Dereg() {
	mr.Invalidate()
	mr.mu.Lock()
	mr.gone.Store(true)
	mr.mu.Unlock()
	mr.pd.dev.stags.remove(mr)
}

// A MemFault is why an access to a Memory Region is refused, in the order of the checks.
type MemFault uint8

// The faults.
const (
	MemOK     MemFault = iota
	MemSTag            // unknown index, wrong key, or not valid
	MemAssoc           // of another PD or QP
	MemAccess          // right not granted
	MemWrap            // tagged offset + length passes 2^64
	MemBounds          // outside of the registered range
	MemAlign           // atomic operation on bytes that are not aligned
)

// check returns the offset in buf of the n bytes at tagged offset to, or why qp does not have
// the right need to them under stag. The caller holds mr.mu, and keeps it while it touches the
// bytes. Every check is in bytes and made before any byte is touched (RFC 5041 §7.1, §8.1).
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

// remoteInvalidate does what a Send with Invalidate asks for: MemSTag when stag
// is not valid here, MemAssoc when this stream alone does not own it. An STag that
// other streams share is not theirs to invalidate (RFC 5040 §8.1.1 [R5040-210]).
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
