// Bad record marks, and records that are no calls.

package stack

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/stack/peer"
)

// TestBadRecordMarks: a bad record ends the connection, because the start of the next record is
// unknown.
func TestBadRecordMarks(t *testing.T) {
	s, works := attacked(t)
	null := peer.NFS(peer.XID(), 0, nil)
	for name, b := range map[string][]byte{
		"record of 2^31-1 bytes":          peer.Mark(1<<31-1, true),
		"record over the limit":           peer.Mark(2<<20+1, true),
		"fragments over the limit in sum": append(append(peer.Mark(2<<20, false), make([]byte, 2<<20)...), peer.Mark(1, true)...),
		"empty fragments for ever":        bytes.Repeat(peer.Mark(0, false), 10000),
	} {
		p := peer.DialTCP(t, s.TCP)
		p.Null("before")
		p.Say(b)
		p.WantEnd(name)
		p.C.Close()
	}
	for n := range 4 + len(null) {
		p := peer.DialTCP(t, s.TCP)
		p.Say(append(peer.Mark(len(null), true), null...)[:n])
		finish(p.C)
		p.WantEnd(fmt.Sprintf("%d bytes of a record", n))
		p.C.Close()
	}
	works()
}

// TestDroppedRecords: a record that is no call, or lacks part of its header, is dropped. The next
// record is served, because the marks still show where it begins.
func TestDroppedRecords(t *testing.T) {
	s, works := attacked(t)
	p := peer.DialTCP(t, s.TCP)
	null := peer.NFS(peer.XID(), 0, nil)
	for n := range null {
		p.Message(null[:n])
		p.Null(fmt.Sprintf("%d bytes of a call", n))
	}
	for i := range trials() {
		b := randomBytes(uint64(i), i*11%500)
		if len(b) > 8 {
			b[4] |= 0x80 // neither call nor reply
		}
		p.Message(b)
	}
	p.Null("noise")
	p.Message(peer.Words(1, 1, 0, 0, 0, 0)) // a reply
	p.Null("a reply")
	// A call in one-byte fragments, with empty ones between, is still a call.
	var b []byte
	xid := peer.XID()
	for i, o := range peer.NFS(xid, 0, nil) {
		if i%5 == 0 {
			b = append(b, peer.Mark(0, false)...)
		}
		b = append(append(b, peer.Mark(1, false)...), o)
	}
	p.Say(append(b, peer.Mark(0, true)...))
	if h, _ := p.Want("fragments"); h.XID != xid || !h.OK() {
		t.Errorf("in fragments: %+v", h)
	}
	works()
}
