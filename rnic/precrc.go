// The CRCs of large RDMA Writes, reckoned by the poster.

package rnic

import (
	"encoding/binary"
	"sync"

	"github.com/nfsrdma/nfsrdma/rnic/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/rdmap"
)

// Bounds of what is reckoned when a work request is posted.
const (
	earlyCRCMin  = 16 << 10 // octets of a Write from which it pays
	earlyCRCMax  = 20       // FPDUs of a Write up to which there is room for their CRCs
	earlyCRCSegs = 64       // and of one PostSend
)

// earlyCRCs are the CRCs of the FPDUs of the Writes of one PostSend. A tagged
// header has nothing in it that hangs on what is sent before it, so they are
// known when the work is posted: the poster, which has often just made the
// payload and has it in its cache, reckons them beside other posters and beside
// the transmitter, whose time is everybody's.
type earlyCRCs struct {
	segLen int  // payload octets of all FPDUs of a Write but its last
	n      int  // CRCs reckoned
	took   int  // of which handed on
	over   bool // there was no room for those of a Write, nor are there any behind it
	crcs   [earlyCRCSegs]uint32
	head   [mpa.LengthLen + ddp.TaggedLen]byte // here because a slice of it goes through a function value
}

var earlyPool = sync.Pool{New: func() any { return new(earlyCRCs) }}

// early reckons the CRCs of the Writes among wrs: nil where there is nothing to
// reckon. Its end is take for each of wrs, then earlyPool.Put.
func (t *transmitter) early(wrs []SendWR) *earlyCRCs {
	mulpdu := int(t.mulpduNow.Load())
	if mulpdu == 0 {
		return nil
	}
	var c *earlyCRCs
	for i := range wrs {
		if wrs[i].Op != OpWrite || total(wrs[i].SGL) < earlyCRCMin {
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

// add reckons the CRCs of one Write.
func (c *earlyCRCs) add(wr *SendWR) {
	length := int(total(wr.SGL))
	if c.over = c.over || c.segments(length) > min(earlyCRCMax, earlyCRCSegs-c.n); c.over {
		return
	}
	at, off := 0, 0 // where in the SGL
	for sent := 0; sent < length; {
		n := min(length-sent, c.segLen)
		h := ddp.Header{Tagged: true, Last: sent+n == length, Ctrl: rdmap.Control(rdmap.OpWrite),
			STag: uint32(wr.RemoteSTag), TO: wr.RemoteTO + uint64(sent)}
		binary.BigEndian.PutUint16(c.head[:], uint16(ddp.TaggedLen+n))
		h.Put(c.head[mpa.LengthLen:])
		crc := mpa.UpdateCRC(0, c.head[:])
		for left := n; left > 0; {
			p := wr.SGL[at][off:]
			if len(p) > left {
				p = p[:left]
				off += left
			} else {
				at, off = at+1, 0
			}
			left -= len(p)
			crc = mpa.UpdateCRC(crc, p)
		}
		c.crcs[c.n] = crc
		c.n++
		sent += n
	}
}

// take hands the CRCs of e on to it, if there are any.
func (c *earlyCRCs) take(e *sendEntry) {
	if e.Op != OpWrite || e.length < earlyCRCMin || c.took == c.n {
		return
	}
	n := c.segments(int(e.length))
	e.segLen, e.ncrcs = c.segLen, copy(e.crcs[:n], c.crcs[c.took:])
	c.took += n
}

func (c *earlyCRCs) segments(length int) int { return (length + c.segLen - 1) / c.segLen }

// cut is how many payload octets the FPDUs of e have when the connection allows room.
func (e *sendEntry) cut(room int) int {
	if e.ncrcs == 0 {
		return room
	}
	if e.segLen > room { // the segment size of TCP has shrunk since
		e.ncrcs = 0
		return room
	}
	return e.segLen
}

// earlyCRC returns the CRC, header and payload, of the next FPDU of e, which
// carries n octets from offset sent, if the poster has reckoned it. CRCs that
// were made for other cuts are dropped.
func (e *sendEntry) earlyCRC(sent, n int) (crc uint32, ok bool) {
	if e.ncrcs == 0 {
		return 0, false
	}
	if sent%e.segLen != 0 || n != min(int(e.length)-sent, e.segLen) {
		e.ncrcs = 0
		return 0, false
	}
	return e.crcs[sent/e.segLen], true
}
