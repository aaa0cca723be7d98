// RC ordering: repeated answers wait for answers in flight, and local invalidations wait for
// Reads.

package core

import (
	"bytes"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// TestReadAgainBeforeItsAnswer: a repeated request for a part of a Read starts no second answer
// while no packet of the first has left. All packets come once.
func TestReadAgainBeforeItsAnswer(t *testing.T) {
	a, b := reliables(t, 256, 5, nil)
	mr, mem := b.host.region(t, 600, rnic.RemoteRead)
	copy(mem, pattern(600, 1))
	sink, got := a.host.region(t, 600, rnic.LocalWrite)
	a.post(rnic.SendWR{ID: 3, Op: rnic.OpRead, MR: sink, Length: 600, RemoteSTag: mr.STag(), RemoteTO: mr.Base()})
	b.take(a.send()...)
	b.take(b.say(packet.RCReadRequest, 6, nil, to(mr, 256, 344)))
	a.take(b.says("RDMA READ response First 5; RDMA READ response Middle 6; RDMA READ response Last 7; ")...)
	a.want(rnic.OpRead, 3, 600)
	if !bytes.Equal(got, mem) {
		t.Error("other bytes")
	}
}

// TestLocalInvalidateWaitsForReads: the invalidation of a Read's sink completes after the Read
// posted before it.
func TestLocalInvalidateWaitsForReads(t *testing.T) {
	a, b := reliables(t, 256, 5, nil)
	mr, mem := b.host.region(t, 600, rnic.RemoteRead)
	copy(mem, pattern(600, 1))
	sink, got := a.host.region(t, 600, rnic.LocalWrite)
	a.post(rnic.SendWR{ID: 3, Op: rnic.OpRead, MR: sink, Length: 600, RemoteSTag: mr.STag(), RemoteTO: mr.Base()})
	a.post(rnic.SendWR{ID: 4, Op: rnic.OpLocalInvalidate, MR: sink})
	fs := a.says("RDMA READ Request 5 A; ")
	b.take(fs...)
	data := b.send()
	a.take(data[:len(data)-1]...)
	a.send()
	a.none()
	a.take(data[len(data)-1])
	a.send()
	wcs := a.completions()
	must.Equal(t, "len(wcs)", len(wcs), 2)
	must.Equal(t, "wcs[0].ID", wcs[0].ID, 3)
	must.Equal(t, "wcs[1].ID", wcs[1].ID, 4)
	must.Equal(t, "wcs[0].Status", wcs[0].Status, rnic.WCSuccess)
	must.Equal(t, "wcs[1].Status", wcs[1].Status, rnic.WCSuccess)
	if !bytes.Equal(got, mem) {
		t.Error("other bytes")
	}
}
