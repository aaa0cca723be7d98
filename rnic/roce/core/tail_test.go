// Known CRCs over packets' ends.

package core

import (
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// TestKnownTails: for payload in any pieces, with and without pad, the reported CRC
// over a packet's end is right: send compares it. It covers the whole payload of a full packet.
func TestKnownTails(t *testing.T) {
	const mtu = 1024
	whole := packet.CopyTail(make([]byte, mtu), make([]byte, mtu)).N // 0 without processor support
	for _, sizes := range [][]int{{mtu}, {3 * mtu}, {1, 256}, {256, 1}, {255, 256, 1}, {0, 512, 0, 512, 0}, {mtu + 2}, {100, 5 * mtu}} {
		a, b := reliables(t, mtu, 7, nil)
		var sgl [][]byte
		n := 0
		for i, size := range sizes {
			sgl = append(sgl, pattern(size, i))
			n += size
		}
		remote, mem := b.host.region(t, n, rnic.RemoteWrite|rnic.RemoteRead)
		local, got := a.host.region(t, n, rnic.LocalWrite)
		a.post(rnic.SendWR{ID: 1, Op: rnic.OpWrite, SGL: sgl, RemoteSTag: remote.STag(), RemoteTO: remote.Base()})
		a.post(rnic.SendWR{ID: 2, Op: rnic.OpRead, MR: local, Length: uint32(n), RemoteSTag: remote.STag(), RemoteTO: remote.Base()})
		for range 10 {
			b.take(a.send()...)
			a.take(b.send()...)
		}
		wcs := a.completions()
		must.Equal(t, "len(wcs)", len(wcs), 2)
		must.Equal(t, "wcs[0].Status", wcs[0].Status, rnic.WCSuccess)
		must.Equal(t, "wcs[1].Status", wcs[1].Status, rnic.WCSuccess)
		at := 0
		for _, p := range sgl {
			if string(mem[at:at+len(p)]) != string(p) || string(got[at:at+len(p)]) != string(p) {
				t.Errorf("%v: other bytes", sizes)
			}
			at += len(p)
		}
		if n >= mtu && b.tails != whole || len(sizes) == 1 && a.tails != whole {
			t.Errorf("%v: %d and %d bytes are known of, want %d", sizes, a.tails, b.tails, whole)
		}
	}
}
