// Two cores joined: every work request, in both directions, in every mode.

package core

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
)

// TestTransfers exchanges every operation between two cores, with and without CRCs and markers.
func TestTransfers(t *testing.T) {
	for _, crc := range []rnic.CRCMode{rnic.CRCOn, rnic.CRCOff} {
		for _, marks := range []bool{false, true} {
			t.Run(fmt.Sprintf("crc=%v markers=%v", crc, marks), func(t *testing.T) {
				cfg := rnic.DeviceConfig{CRC: crc, Markers: marks}
				a, b := joined(t, cfg, cfg, 64)
				transfers(t, a, b)
				transfers(t, b, a)
			})
		}
	}
}

// transfers makes a send each kind of work request to b, in several sizes.
func transfers(t *testing.T, a, b *side) {
	t.Helper()
	for _, n := range []int{0, 1, 3, 192, 193, 4096, 65000, 1 << 20, 3<<20 + 1} {
		data, mem := noise(n), make([]byte, n+8)
		recv(t, b.qp, 1, mem[:n])
		post(t, a.qp, rnic.SendWR{ID: 2, Op: rnic.OpSendSE, SGL: [][]byte{data[:n/3], nil, data[n/3:]}})
		// The first message opens the gate of a responder: let a speak first.
		wc := b.want(t, rnic.OpRecv, 1, rnic.WCSuccess)
		a.want(t, rnic.OpSendSE, 2, rnic.WCSuccess)
		if int(wc.Len) != n || !wc.Solicited {
			t.Fatalf("Send of %d bytes: %+v", n, wc)
		}
		if !bytes.Equal(mem[:n], data) {
			t.Fatalf("Send of %d bytes: other bytes arrived", n)
		}
		clear(mem)
		mr, err := b.pd.RegMR(mem, rnic.RemoteWrite|rnic.RemoteRead)
		if err != nil {
			t.Fatalf("RegMR: %v", err)
		}
		recv(t, b.qp, 3, nil)
		post(t, a.qp, rnic.SendWR{ID: 4, Op: rnic.OpWrite, SGL: [][]byte{data}, RemoteSTag: mr.STag(), RemoteTO: mr.Base() + 8},
			rnic.SendWR{ID: 5, Op: rnic.OpSend, Unsignaled: true})
		a.want(t, rnic.OpWrite, 4, rnic.WCSuccess)
		b.want(t, rnic.OpRecv, 3, rnic.WCSuccess)
		if !bytes.Equal(mem[8:], data) {
			t.Fatalf("Write of %d bytes", n)
		}
		back := make([]byte, n+3)
		sink, err := a.pd.RegMR(back, rnic.LocalWrite)
		if err != nil {
			t.Fatalf("RegMR: %v", err)
		}
		recv(t, b.qp, 7, nil)
		post(t, a.qp, rnic.SendWR{ID: 6, Op: rnic.OpReadInvalidate, RemoteSTag: mr.STag(), RemoteTO: mr.Base() + 8,
			MR: sink, Offset: 3, Length: uint32(n)},
			rnic.SendWR{ID: 8, Op: rnic.OpSendInvalidate, Invalidate: mr.STag(), Fence: true})
		a.want(t, rnic.OpReadInvalidate, 6, rnic.WCSuccess)
		a.want(t, rnic.OpSendInvalidate, 8, rnic.WCSuccess)
		if !bytes.Equal(back[3:], data) {
			t.Fatalf("Read of %d bytes", n)
		}
		if wc := b.want(t, rnic.OpRecv, 7, rnic.WCSuccess); wc.Invalidated != mr.STag() {
			t.Fatalf("invalidated %v, want %v", wc.Invalidated, mr.STag())
		}
		if mr.Valid() || sink.Valid() {
			t.Fatalf("valid: region %v, sink %v", mr.Valid(), sink.Valid())
		}
		mr.Dereg()
		sink.Dereg()
	}
}
