// The CRCs of large RDMA Writes, computed by the poster.

package core

import (
	"encoding/binary"
	"sync"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/rdmap"
)

// Bounds of what is computed when a work request is posted.
const (
	earlyCRCMin  = 16 << 10 // bytes of a Write from which it pays
	earlyCRCMax  = 20       // FPDUs of a Write up to which there is room for their CRCs
	earlyCRCSegs = 64       // and of one PostSend
)

// earlyCRCs are the CRCs of the FPDUs of the Writes of one PostSend. A tagged
// header has nothing in it that depends on what is sent before it, so they are
// known when the work is posted: the poster, which has often just made the
// payload and has it in its cache, computes them at the same time as other posters and
// the transmitter, which all share.
type earlyCRCs struct {
	segLen int  // payload bytes of all FPDUs of a Write but its last
	n      int  // CRCs computed
	took   int  // of which handed on
	over   bool // there was no room for those of a Write, nor are there any of later ones
	crcs   [earlyCRCSegs]uint32
	head   [mpa.LengthLen + ddp.TaggedLen]byte // here because a slice of it goes through a function value
}

var earlyPool = sync.Pool{New: func() any { return new(earlyCRCs) }}

// Early computes the CRCs of the large Writes among wrs: nil where there are none, or CRCs are not
// in use. Any goroutine may call it. It is for one Post of wrs; then Free it.
func (o *Outbound) Early(wrs []rnic.Posted) *earlyCRCs {
	mulpdu := int(o.earlyMULPDU.Load())
	if mulpdu == 0 {
		return nil
	}
	var c *earlyCRCs
	for i := range wrs {
		if wrs[i].Op != rnic.OpWrite || wrs[i].Bytes < earlyCRCMin || wrs[i].Source != nil {
			continue
		}
		if c == nil {
			c = earlyPool.Get().(*earlyCRCs)
			c.segLen, c.n, c.took, c.over = mulpdu-ddp.TaggedLen, 0, 0, false
		}
		c.add(&wrs[i])
	}
	return c
}

// Free returns what Early returned.
func (c *earlyCRCs) Free() {
	if c != nil {
		earlyPool.Put(c)
	}
}

// add computes the CRCs of one Write.
func (c *earlyCRCs) add(wr *rnic.Posted) {
	length := int(wr.Bytes)
	if c.over = c.over || c.segments(length) > min(earlyCRCMax, earlyCRCSegs-c.n); c.over {
		return
	}
	at := cursor{sgl: wr.SGL}
	for sent := 0; sent < length; {
		n := min(length-sent, c.segLen)
		h := ddp.Header{Tagged: true, Last: sent+n == length, Ctrl: rdmap.Control(rdmap.OpWrite),
			STag: uint32(wr.RemoteSTag), TO: wr.RemoteTO + uint64(sent)}
		binary.BigEndian.PutUint16(c.head[:], uint16(ddp.TaggedLen+n))
		h.Put(c.head[mpa.LengthLen:])
		crc := mpa.UpdateCRC(0, c.head[:])
		for left := n; left > 0; {
			p := at.next(left)
			left -= len(p)
			crc = mpa.UpdateCRC(crc, p)
		}
		c.crcs[c.n] = crc
		c.n++
		sent += n
	}
}

// take hands the CRCs of e on to it, if there are any.
func (c *earlyCRCs) take(e *entry) {
	if e.Op != rnic.OpWrite || e.Bytes < earlyCRCMin || e.Source != nil || c.took == c.n {
		return
	}
	l := &e.P.early
	l.segLen, l.n = c.segLen, copy(l.crcs[:c.segments(int(e.Bytes))], c.crcs[c.took:])
	c.took += l.n
}

func (c *earlyCRCs) segments(length int) int { return (length + c.segLen - 1) / c.segLen }

// An earlyList is the CRCs of one Write, and the cut that they were made for.
type earlyList struct {
	segLen int
	n      int                 // of its FPDUs: all, or none where the transmitter is to make them
	crcs   [earlyCRCMax]uint32 // in order
}

// cut is how many payload bytes the FPDUs of a Write have when the connection allows room.
func (l *earlyList) cut(room int) int {
	if l.n == 0 {
		return room
	}
	if l.segLen > room { // the segment size of TCP has shrunk since
		l.n = 0
		return room
	}
	return l.segLen
}

// crc returns the CRC, header and payload, of the next FPDU of a Write of length bytes, which
// carries n bytes from offset sent, if the poster has computed it. CRCs that
// were made for other cuts are dropped.
func (l *earlyList) crc(sent, n, length int) (crc uint32, ok bool) {
	if l.n == 0 {
		return 0, false
	}
	if sent%l.segLen != 0 || n != min(length-sent, l.segLen) {
		l.n = 0
		return 0, false
	}
	return l.crcs[sent/l.segLen], true
}
