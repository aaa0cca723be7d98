// RC through sockets: all operations, loss, and ending QPs.

package roce

import (
	"bytes"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/rnictest"
)

// operations runs each RC operation once for each size.
func operations(t *testing.T, a, b *side, sizes []int) {
	t.Helper()
	for i, n := range sizes {
		data := pattern(n, i)
		got := b.recv(1, n)
		a.post(rnic.SendWR{ID: 2, Op: rnic.OpSend, SGL: [][]byte{data[:n/3], data[n/3:]}})
		if wc := b.good(1)[0]; int(wc.Len) != n || !bytes.Equal(got, data) {
			t.Errorf("Send of %d bytes: %v", n, wc)
		}
		a.good(1)

		mr, mem := b.region(n, rnic.RemoteWrite|rnic.RemoteRead)
		a.post(rnic.SendWR{Op: rnic.OpWrite, SGL: [][]byte{data}, RemoteSTag: mr.STag(), RemoteTO: mr.Base()})
		a.good(1)
		sink, back := a.region(n, rnic.LocalWrite)
		a.post(rnic.SendWR{Op: rnic.OpRead, MR: sink, Length: uint32(n), RemoteSTag: mr.STag(), RemoteTO: mr.Base()})
		a.good(1)
		if !bytes.Equal(back, data) {
			t.Errorf("Read of %d bytes", n)
		}
		mr.Bind(b.qp)
		b.recv(3, 0)
		a.post(rnic.SendWR{Op: rnic.OpSendInvalidate, Invalidate: mr.STag()})
		if wc := b.good(1)[0]; wc.Invalidated != mr.STag() || mr.Valid() {
			t.Errorf("Send with Invalidate: %v", wc)
		}
		if !bytes.Equal(mem, data) {
			t.Errorf("Write of %d bytes", n)
		}
		a.good(1)
		b.recv(4, 0)
		mr2, mem2 := b.region(n, rnic.RemoteWrite)
		a.post(rnic.SendWR{Op: rnic.OpWriteImmediate, Immediate: 7, SGL: [][]byte{data}, RemoteSTag: mr2.STag(), RemoteTO: mr2.Base()})
		if wc := b.good(1)[0]; wc.Op != rnic.OpRecvWrite || wc.Value != 7 || !bytes.Equal(mem2, data) {
			t.Errorf("Write with Immediate: %v", wc)
		}
		a.good(1)
	}
}

var sizes = []int{0, 1, 255, 4096, 4097, 65_536, 1<<20 + 3}

func TestReliable(t *testing.T) {
	for _, mtu := range []int{256, 1024, 4096} {
		a, b := pair(t, rnic.RC, Options{}, mtu)
		operations(t, a, b, sizes)
		if err := a.qp.Disconnect(t.Context()); err != nil {
			t.Errorf("Disconnect: %v", err)
		}
		b.qp.Close()
	}
}

// Lost, repeated and reordered packets change nothing but the duration.
func TestReliableOverABadWire(t *testing.T) {
	a, b := pair(t, rnic.RC, Options{Wrap: badly(20)}, 1024)
	operations(t, a, b, []int{0, 1, 4097, 65_536, 300_000})
	if w := rnic.EndpointOf(a.qp).(*endpoint).bound.Load().port.wire.(*rnictest.BadWire); w.Harmed.Load() == 0 {
		t.Error("the wire was good")
	}
}
