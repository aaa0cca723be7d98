// The UC requester: PSNs, opcodes, lengths, completion, errors.

package core

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
	"github.com/nfsrdma/nfsrdma/test/conformance"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// Each verbs opcode is accepted or refused at posting, by service.
func TestOperationsOfEachService(t *testing.T) {
	conformance.Proves(t, "IBU-001", "IBU-035")
	h := newHost(addrA)
	uc := h.newSide(t, rnic.UC, 64, 256).connect(Attrs{Peer: addrB, PathMTU: 1024})
	ud := h.newSide(t, rnic.UD, 64, 256).datagrams(0)
	mr, _ := h.region(t, 8, rnic.LocalWrite)
	both := []rnic.Opcode{rnic.OpSend, rnic.OpSendSE, rnic.OpSendImmediate, rnic.OpSendSEImmediate}
	only := []rnic.Opcode{rnic.OpWrite, rnic.OpWriteImmediate, rnic.OpWriteSEImmediate, rnic.OpLocalInvalidate}
	for op := rnic.OpSend; op <= rnic.OpRecvWrite+1; op++ {
		wr := rnic.Posted{SendWR: rnic.SendWR{Op: op, AH: &rnic.AddressHandle{Addr: addrB, QPN: 9}, MR: mr, Atomic: &rnic.Atomic{}}}
		has := func(list []rnic.Opcode) bool { return bytes.Contains(list2bytes(list), []byte{byte(op)}) }
		for _, s := range []*side{uc, ud} {
			err := s.qp.Post([]rnic.Posted{wr})
			if want := has(both) || s == uc && has(only); (err == nil) != want {
				t.Errorf("%v on %v: %v", op, s.qp, err)
			}
			if err != nil && !errors.Is(err, ErrOperation) {
				t.Errorf("%v on %v: %v", op, s.qp, err)
			}
		}
	}
	if n := len(uc.send()); n != 7 {
		t.Errorf("%d packets of UC", n)
	}
	if n := len(ud.send()); n != 4 {
		t.Errorf("%d packets of UD", n)
	}
}

func list2bytes(ops []rnic.Opcode) (b []byte) {
	for _, op := range ops {
		b = append(b, byte(op))
	}
	return b
}

// Messages with lengths around each path MTU are cut into packets with the right opcodes, payloads,
// pads, PSNs and RETH.
func TestSegmentation(t *testing.T) {
	conformance.Proves(t, "IBU-038", "IBU-041", "IBU-045", "IBU-047", "IBU-049", "IBU-050", "IBU-051", "IBU-052", "IBU-053",
		"IBU-187", "IBU-188", "IBU-193", "IBU-194", "IBU-195", "IBU-240", "IBU-243", "IBU-251")
	for _, mtu := range []int{256, 512, 1024, 2048, 4096} {
		a, b := pair(t, mtu, 0xfffffe)
		psn := uint32(0xfffffe)
		for _, n := range []int{0, 1, 3, mtu - 1, mtu, mtu + 1, 2 * mtu, 2*mtu + 1, 3*mtu + mtu/2, 10 * mtu} {
			for _, op := range []rnic.Opcode{rnic.OpSend, rnic.OpSendSE, rnic.OpSendImmediate, rnic.OpSendSEImmediate, rnic.OpWrite, rnic.OpWriteImmediate, rnic.OpWriteSEImmediate} {
				data := pattern(n, int(op))
				a.post(rnic.SendWR{Op: op, SGL: pieces(data), RemoteSTag: 0x1a2b, RemoteTO: 1 << 40, Immediate: 0xdeadbeef})
				fs := a.send()
				count := max(1, (n+mtu-1)/mtu)
				if len(fs) != count {
					t.Fatalf("%v of %d bytes at %d: %s", op, n, mtu, opcodes(t, fs))
				}
				write := strings.HasPrefix(op.String(), "RDMA Write")
				imm := op.CarriesImmediate()
				for i, f := range fs {
					h, payload := f.header(t)
					first, last := i == 0, i == count-1
					want := "UC " + map[bool]string{true: "RDMA WRITE ", false: "SEND "}[write] +
						map[[2]bool]string{{true, true}: "Only", {true, false}: "First", {false, false}: "Middle", {false, true}: "Last"}[[2]bool{first, last}]
					if imm && last {
						want += " with Immediate"
					}
					if h.Opcode.String() != want || h.PSN != psn || h.DestQP != b.qp.num || h.PKey != 0xffff || h.AckReq || h.M {
						t.Fatalf("%v of %d bytes at %d, packet %d: %v %+v, want %s, PSN %06x", op, n, mtu, i, h.Opcode, h.BTH, want, psn)
					}
					psn = (psn + 1) & 0xffffff
					if se := strings.Contains(op.String(), "Solicited"); h.SE != (se && last) {
						t.Errorf("%v: SE %v in packet %d of %d", op, h.SE, i, count)
					}
					if !last && (len(payload) != mtu || h.Pad != 0) || last && len(payload) != n-(count-1)*mtu || int(h.Pad) != -len(payload)&3 {
						t.Errorf("%v of %d at %d: packet %d has %d bytes, pad %d", op, n, mtu, i, len(payload), h.Pad)
					}
					if len(payload) > 0 && !bytes.Equal(payload, data[i*mtu:i*mtu+len(payload)]) {
						t.Errorf("%v of %d at %d: packet %d has other bytes", op, n, mtu, i)
					}
					if write && first && h.RETH != (packet.RETH{VA: 1 << 40, RKey: 0x1a2b, Length: uint32(n)}) {
						t.Errorf("RETH %+v", h.RETH)
					}
					if imm && last && h.Imm != 0xdeadbeef {
						t.Errorf("immediate %x", h.Imm)
					}
					end := len(f.datagram) - packet.ICRCLen
					for _, z := range f.datagram[end-int(h.Pad) : end] {
						if z != 0 {
							t.Errorf("pad %x", z)
						}
					}
				}
				a.want(op, 0, n)
			}
		}
	}
}

// pieces returns b as a gather list with some empty slices.
func pieces(b []byte) [][]byte {
	third := len(b) / 3
	return [][]byte{nil, b[:third], b[third:third], b[third:], nil}
}

// With several posting goroutines, packets of different messages do not interleave.
func TestMessagesAreNotMixed(t *testing.T) {
	conformance.Proves(t, "IBU-050")
	a, _ := pair(t, 256, 0)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for j := range 10 {
				op := []rnic.Opcode{rnic.OpSend, rnic.OpWriteImmediate}[(i+j)%2]
				if err := a.vqp.PostSend(rnic.SendWR{Op: op, SGL: [][]byte{make([]byte, 100*j)}}); err != nil {
					t.Errorf("PostSend: %v", err)
				}
			}
		})
	}
	wg.Wait()
	var prev packet.Opcode
	fs := a.send()
	for i, f := range fs {
		h, _ := f.header(t)
		if i == 0 && !h.Opcode.Starts() || i > 0 && !h.Opcode.CanFollow(prev) {
			t.Fatalf("packet %d: %v after %v", i, h.Opcode, prev)
		}
		prev = h.Opcode
	}
	if !prev.Ends() || len(a.completions()) != 40 {
		t.Errorf("%d packets, the last is %v", len(fs), prev)
	}
}

// A message completes when its last packet has left, without any answer.
func TestCompletionWhenPacketsLeave(t *testing.T) {
	conformance.Proves(t, "IBU-007", "IBU-055", "IBU-058", "IBU-034")
	a, _ := pair(t, 256, 0)
	a.post(rnic.SendWR{ID: 1, SGL: [][]byte{make([]byte, 600)}})
	a.post(rnic.SendWR{ID: 2, SGL: [][]byte{make([]byte, 10)}})
	b := make([]byte, MaxPacket)
	for range 4 {
		if _, _, ok := a.qp.Next(0, b); !ok {
			t.Fatal("no packet")
		}
	}
	if _, _, ok := a.qp.Next(0, b); ok {
		t.Error("a packet was built twice")
	}
	for i, want := range []int{0, 0, 1, 1} {
		a.qp.Sent(1)
		if wcs := a.completions(); len(wcs) != want {
			t.Errorf("packet %d has left: %v", i, wcs)
		}
	}
	if a.qp.Outstanding() {
		t.Error("work is outstanding")
	}
}

// A refused packet's message completes with an error, the rest is flushed, SQE takes no posts,
// and receives continue. Back in RTS, sending continues with the PSN that did not leave.
func TestSendFailure(t *testing.T) {
	conformance.Proves(t, "IBU-056", "IBU-171", "IBU-241")
	a, b := pair(t, 256, 0)
	for i, wr := range []rnic.SendWR{{SGL: [][]byte{make([]byte, 300)}}, {SGL: [][]byte{make([]byte, 600)}, Unsignaled: true}, {}, {Unsignaled: true}, {}} {
		wr.ID = uint64(i)
		a.post(wr)
	}
	room := make([]byte, MaxPacket)
	for range 6 {
		a.qp.Next(0, room)
	}
	a.qp.Sent(3) // the first message and part of the second
	a.want(rnic.OpSend, 0, 300)
	a.qp.SendFailed()
	wcs := a.completions()
	must.Equal(t, "len(wcs)", len(wcs), 4)
	must.Equal(t, "wcs[0].Status", wcs[0].Status, rnic.WCLocErr)
	must.Equal(t, "wcs[0].ID", wcs[0].ID, 1)
	for i, wc := range wcs[1:] {
		if wc.Status != rnic.WCFlushErr || wc.ID != uint64(i+2) {
			t.Errorf("%v", wc)
		}
	}
	if _, q := a.qp.Query(); a.state() != SQE || q.SQPSN != 3 {
		t.Errorf("%v, PSN %d", a.state(), q.SQPSN)
	}
	if err := a.vqp.PostSend(rnic.SendWR{}); !errors.Is(err, rnic.ErrState) {
		t.Errorf("post in SQE: %v", err)
	}
	a.qp.SendFailed() // without any packet
	if n := len(a.send()); n != 0 || a.state() != SQE {
		t.Errorf("%d packets in SQE", n)
	}
	a.recv(7, 10)
	b.post(rnic.SendWR{SGL: [][]byte{[]byte("hello")}})
	a.take(b.send()...)
	a.want(rnic.OpRecv, 7, 5)

	a.modify(RTS, 0, Attrs{})
	a.post(rnic.SendWR{ID: 9})
	fs := a.send()
	h, _ := fs[0].header(t)
	must.Equal(t, "len(fs)", len(fs), 1)
	must.Equal(t, "h.PSN", h.PSN, 3)
	must.Equal(t, "h.Opcode", h.Opcode, packet.UCSendOnly)
	a.want(rnic.OpSend, 9, 0)
}

// Successful unsignaled work has no completion.
func TestUnsignaled(t *testing.T) {
	conformance.Proves(t, "IBU-241")
	a, _ := pair(t, 256, 0)
	a.post(rnic.SendWR{ID: 1, Unsignaled: true})
	a.post(rnic.SendWR{ID: 2})
	a.send()
	a.want(rnic.OpSend, 2, 0)
	if a.qp.SendFailed(); a.state() != RTS { // all packets have left: none has failed
		t.Error(a.state())
	}
}

// 2^31 bytes are accepted, one more is refused, and neither costs anything before it is cut into
// packets.
func TestMessageSize(t *testing.T) {
	conformance.Proves(t, "IBU-036")
	a, _ := pair(t, 4096, 0)
	mib := make([]byte, 1<<20)
	sgl := make([][]byte, 2048, 2049)
	for i := range sgl {
		sgl[i] = mib
	}
	if err := a.vqp.PostSend(rnic.SendWR{SGL: append(sgl, []byte{0})}); !errors.Is(err, ErrTooLong) {
		t.Errorf("2^31+1 bytes: %v", err)
	}
	a.post(rnic.SendWR{SGL: sgl})
	b := make([]byte, MaxPacket)
	n, _, ok := a.qp.Next(0, b)
	if h, payload, err := packet.Parse(append(b[:n:n], 0, 0, 0, 0)); !ok || err != nil || h.Opcode != packet.UCSendFirst || len(payload) != 4096 {
		t.Errorf("%v, %v, %v", ok, h.Opcode, err)
	}
}

// In SQD sends wait, except the current message, which is finished.
func TestDrain(t *testing.T) {
	a, _ := pair(t, 256, 0)
	a.post(rnic.SendWR{ID: 1, SGL: [][]byte{make([]byte, 600)}})
	a.post(rnic.SendWR{ID: 2})
	if _, _, ok := a.qp.Next(0, make([]byte, MaxPacket)); !ok {
		t.Fatal("no packet")
	}
	a.qp.Sent(1)
	a.modify(SQD, 0, Attrs{})
	a.post(rnic.SendWR{ID: 3})
	if fs := a.send(); opcodes(t, fs) != "UC SEND Middle 256; UC SEND Last 88; " {
		t.Errorf("%s", opcodes(t, fs))
	}
	a.want(rnic.OpSend, 1, 600)
	a.modify(RTS, 0, Attrs{})
	if n := len(a.send()); n != 2 || len(a.completions()) != 2 {
		t.Errorf("%d packets after SQD", n)
	}
}

// A local invalidation runs in order, sends nothing and completes.
func TestLocalInvalidate(t *testing.T) {
	a, _ := pair(t, 256, 0)
	mr, _ := a.host.region(t, 100, rnic.RemoteWrite)
	a.post(rnic.SendWR{ID: 1})
	a.post(rnic.SendWR{ID: 2, Op: rnic.OpLocalInvalidate, MR: mr})
	if !mr.Valid() {
		t.Error("invalid before its turn")
	}
	if fs := a.send(); len(fs) != 1 || mr.Valid() {
		t.Errorf("%d packets, valid %v", len(fs), mr.Valid())
	}
	if wcs := a.completions(); len(wcs) != 2 || wcs[1].ID != 2 {
		t.Error(wcs)
	}
}

// The UDP source port follows Linux's formula, the same for all packets to a peer.
func TestSourcePort(t *testing.T) {
	conformance.Proves(t, "IBU-227", "IBU-228")
	if got := SourcePort(0x11, 0x12); got != 0xc132 {
		t.Errorf("%#x", got)
	}
	a, _ := pair(t, 256, 0)
	seen := map[string]bool{}
	for range 3 {
		a.post(rnic.SendWR{SGL: [][]byte{make([]byte, 600)}})
	}
	for _, f := range a.send() {
		seen[fmt.Sprintf("%x", f.network[packet.IPv4Len:packet.IPv4Len+2])] = true
	}
	if len(seen) != 1 {
		t.Errorf("ports %v", seen)
	}
	for i := range uint32(5000) {
		if p := SourcePort(i*7919&maxPSN, i*104729&maxPSN); p < 0xc000 {
			t.Errorf("port %#x", p)
		}
	}
}
