// The UC responder: taken and dropped packets; a lost packet costs only its message.

package core

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
	"github.com/nfsrdma/nfsrdma/test/conformance"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// responder returns a UC QP in RTS with path MTU 256 and next PSN 100.
func responder(t testing.TB, access rnic.Access) *side {
	return newHost(addrB).newSide(t, rnic.UC, 64, 256).connect(Attrs{Access: access, Peer: addrA, PathMTU: 256, DestQPN: 0x77, RQPSN: 100})
}

func (s *side) epsn() uint32 { _, a := s.qp.Query(); return a.RQPSN }

// Messages from our requester arrive complete, for all lengths and path MTUs.
func TestMessagesArrive(t *testing.T) {
	conformance.Proves(t, "IBU-006", "IBU-059", "IBU-116", "IBU-119", "IBU-123", "IBU-238", "IBU-239", "IBU-240", "IBU-194")
	for _, mtu := range []int{256, 4096} {
		a, b := pair(t, mtu, 0xfffff0)
		mr, mem := b.host.region(t, 12*mtu, rnic.RemoteWrite)
		id := uint64(0)
		for _, n := range []int{0, 1, 3, mtu, mtu + 1, 2 * mtu, 10*mtu + 5} {
			for _, op := range []rnic.Opcode{rnic.OpSend, rnic.OpSendSEImmediate, rnic.OpWrite, rnic.OpWriteImmediate} {
				id++
				write := op == rnic.OpWrite || op == rnic.OpWriteImmediate
				data := pattern(n, int(id))
				buf := b.recv(id, 12*mtu)[0]
				a.post(rnic.SendWR{ID: id, Op: op, SGL: [][]byte{data}, RemoteSTag: mr.STag(), RemoteTO: mr.Base() + 5, Immediate: 0xdeadbeef})
				fs := a.send()
				for i, f := range fs {
					b.none()
					if d := b.take(f); d != Accepted {
						t.Fatalf("%v of %d bytes, packet %d: dropped for %v", op, n, i, d)
					}
				}
				a.want(op, id, n)
				if op == rnic.OpWrite { // no completion, and no receive used
					b.none()
					b.take(b.say(packet.UCSendOnly, b.epsn(), nil))
					b.want(rnic.OpRecv, id, 0)
					_, q := b.qp.Query()
					a.qp.mu.Lock()
					a.qp.out.psn = q.RQPSN
					a.qp.mu.Unlock()
				} else {
					wc := b.want(map[bool]rnic.Opcode{true: rnic.OpRecvWrite, false: rnic.OpRecv}[write], id, n)
					if wc.Immediate != (op != rnic.OpSend) || wc.Immediate && wc.Value != 0xdeadbeef || wc.Solicited != (op == rnic.OpSendSEImmediate) {
						t.Errorf("%+v", wc)
					}
				}
				got := buf[:n]
				if write {
					got = mem[5 : 5+n]
					if !bytes.Equal(buf, make([]byte, len(buf))) {
						t.Errorf("%v wrote into the receive", op)
					}
				}
				if !bytes.Equal(got, data) {
					t.Errorf("%v of %d bytes came damaged", op, n)
				}
			}
		}
	}
}

// Each opcode is taken or dropped as in IBA table 56, in each responder state, in order and after a
// gap.
func TestOpcodeSequence(t *testing.T) {
	conformance.Proves(t, "IBU-011", "IBU-009", "IBU-076", "IBU-077", "IBU-078", "IBU-079", "IBU-080", "IBU-081", "IBU-083", "IBU-085",
		"IBU-087", "IBU-088", "IBU-089", "IBU-067", "IBU-072", "IBU-073", "IBU-075", "IBU-161", "IBU-165", "IBU-020", "IBU-021")
	full := make([]byte, 256)
	befores := map[string][]packet.Opcode{
		"nothing": nil, "LAST": {packet.UCSendFirst, packet.UCSendLast}, "ONLY": {packet.UCWriteOnly},
		"SEND FIRST": {packet.UCSendFirst}, "SEND MIDDLE": {packet.UCSendFirst, packet.UCSendMiddle},
		"WRITE FIRST": {packet.UCWriteFirst}, "WRITE MIDDLE": {packet.UCWriteFirst, packet.UCWriteMiddle},
	}
	legal := map[string][]packet.Opcode{
		"nothing": {0x20, 0x24, 0x25, 0x26, 0x2a, 0x2b}, "LAST": {0x20, 0x24, 0x25, 0x26, 0x2a, 0x2b}, "ONLY": {0x20, 0x24, 0x25, 0x26, 0x2a, 0x2b},
		"SEND FIRST": {0x21, 0x22, 0x23}, "SEND MIDDLE": {0x21, 0x22, 0x23}, "WRITE FIRST": {0x27, 0x28, 0x29}, "WRITE MIDDLE": {0x27, 0x28, 0x29},
	}
	for name, before := range befores {
		for op := packet.UCSendFirst; op <= packet.UCWriteOnlyImm; op++ {
			// maxPSN: one behind, the previous packet again.
			for _, gap := range []uint32{0, 1, 1000, maxPSN, 1 << 23} {
				s := responder(t, rnic.RemoteWrite)
				s.recv(1, 2000, 2000, 2000)
				mr, _ := s.host.region(t, 3000, rnic.RemoteWrite)
				said := func(op packet.Opcode, psn uint32, n int) frame {
					return s.say(op, psn, full[:n], func(h *packet.Header) {
						// The RETH has the size of the whole Write. Here that is one packet, or
						// three.
						total := n
						if !op.Ends() {
							total = 256 * 3
						}
						to(mr, 0, total)(h)
					})
				}
				psn := uint32(100)
				for _, b := range before {
					n := 256
					if b.Ends() && !b.Starts() {
						n = 10
					}
					if d := s.take(said(b, psn, n)); d != Accepted {
						t.Fatalf("%s: %v: %v", name, b, d)
					}
					psn++
				}
				s.completions()
				inMessage := len(before) > 0 && !before[len(before)-1].Ends()
				n := 256
				if op == packet.UCWriteLast || op == packet.UCWriteLastImm {
					n = 256 * (3 - len(before)) // only right after two packets
				}
				f := said(op, psn+gap, min(n, 256))
				d := s.take(f)
				ok := bytes.Contains(ops(legal[name]), []byte{byte(op)})
				want := Accepted
				switch {
				case gap != 0 && !op.Starts():
					want = DropPSN
				case !ok && !op.Starts():
					want = DropSequence
				case ok && n > 256: // a Last too early for its RETH
					want = DropLength
				}
				if d != want {
					t.Errorf("after %s, gap %d: %v: %v, want %v", name, gap, op, d, want)
				}
				c := s.qp.Counters()
				if lost := inMessage && (gap != 0 || !ok || want != Accepted); (c.Lost == 1) != lost || (c.Gaps == 1) != (gap != 0) {
					t.Errorf("after %s, gap %d: %v: %d lost, %d gaps", name, gap, op, c.Lost, c.Gaps)
				}
				if got := s.epsn(); got != (psn+gap+1)&maxPSN {
					t.Errorf("after %s, gap %d: %v: expects %06x", name, gap, op, got)
				}
				s.goesOn(before, fmt.Sprintf("after %s, gap %d, %v", name, gap, op))
			}
		}
	}
}

// goesOn checks that nothing was sent back, and that the next ONLY is taken, in the oldest unused
// receive.
func (s *side) goesOn(before []packet.Opcode, name string) {
	s.t.Helper()
	used := len(s.completions())
	for _, b := range before {
		if b.Operation() == packet.OpSend && b.Ends() {
			used++
		}
	}
	if d := s.take(s.say(packet.UCSendOnly, s.epsn(), []byte("next"))); d != Accepted {
		s.t.Fatalf("%s: the next message was dropped for %v", name, d)
	}
	s.want(rnic.OpRecv, uint64(1+used), 4)
	if s.state() != RTS || len(s.send()) != 0 {
		s.t.Errorf("%s: %v, or something was sent", name, s.state())
	}
}

func ops(list []packet.Opcode) (b []byte) {
	for _, op := range list {
		b = append(b, byte(op))
	}
	return b
}

// In messages of up to four packets each packet is lost, duplicated, swapped or damaged in turn:
// that message is not delivered, all others are, and no buffer has misplaced bytes.
func TestLostPacketCostsOneMessage(t *testing.T) {
	conformance.Proves(t, "IBU-002", "IBU-003", "IBU-004", "IBU-005", "IBU-030", "IBU-031", "IBU-032", "IBU-033", "IBU-117", "IBU-118", "IBU-120",
		"IBU-121", "IBU-065", "IBU-071", "IBU-170", "IBU-222")
	harm := map[string]func(fs []frame, k int) []frame{
		"lost": func(fs []frame, k int) []frame { return append(append([]frame{}, fs[:k]...), fs[k+1:]...) },
		"doubled": func(fs []frame, k int) []frame {
			return append(append(append([]frame{}, fs[:k+1]...), fs[k]), fs[k+1:]...)
		},
		"damaged": func(fs []frame, k int) []frame {
			out := append([]frame{}, fs...)
			b := append([]byte(nil), fs[k].datagram...)
			b[len(b)-6] ^= 1
			out[k].datagram = b
			return out
		},
		"swapped": func(fs []frame, k int) []frame {
			out := append([]frame{}, fs...)
			if k+1 < len(out) {
				out[k], out[k+1] = out[k+1], out[k]
			}
			return out
		},
	}
	for what, change := range harm {
		for packets := 1; packets <= 4; packets++ {
			for k := range packets {
				a, b := pair(t, 256, 0xfffffd)
				bufs := b.recv(1, 1024, 1024, 1024)
				var sent [][]frame
				var data [][]byte
				for i := range 3 {
					data = append(data, pattern(256*(packets-1)+200, i))
					a.post(rnic.SendWR{SGL: [][]byte{data[i]}})
					sent = append(sent, a.send())
				}
				sent[1] = change(sent[1], k)
				for _, fs := range sent {
					b.take(fs...)
				}
				// A repeated FIRST starts the same message again.
				whole := what == "swapped" && k+1 == packets || what == "doubled" && (k == 0 || k+1 == packets)
				// A repeated ONLY is another message: UC detects no duplicates.
				twice := what == "doubled" && packets == 1
				want := []int{0, 2}
				switch {
				case twice:
					want = []int{0, 1, 1}
				case whole:
					want = []int{0, 1, 2}
				}
				wcs := b.completions()
				name := fmt.Sprintf("packet %d of %d %s", k, packets, what)
				if len(wcs) != len(want) {
					t.Fatalf("%s: %v", name, wcs)
				}
				for i, wc := range wcs {
					if wc.ID != uint64(i+1) || wc.Status != rnic.WCSuccess || !bytes.Equal(bufs[i][:wc.Len], data[want[i]]) {
						t.Errorf("%s: %v is not message %d", name, wc, want[i])
					}
				}
				if n := len(a.completions()); n != 3 {
					t.Errorf("%s: the sender has %d completions", name, n)
				}
				if what == "lost" && b.qp.Counters().Gaps != 1 || what == "damaged" && b.host.port.Counters().Dropped(DropICRC) != 1 {
					t.Errorf("%s: %+v", name, b.host.port.Counters())
				}
				if len(b.send()) != 0 || b.state() != RTS {
					t.Errorf("%s: answered, or %v", name, b.state())
				}
			}
		}
	}
}

// After a broken sequence all packets are dropped until one begins a message.
func TestWaitsForAStart(t *testing.T) {
	conformance.Proves(t, "IBU-083", "IBU-165", "IBU-160")
	s := responder(t, 0)
	s.recv(1, 4000, 4000)
	full := make([]byte, 256)
	s.take(s.say(packet.UCSendFirst, 100, full))
	s.dropped(s.say(packet.UCWriteMiddle, 101, full), DropSequence)
	for psn := uint32(102); psn < 107; psn++ {
		s.dropped(s.say(packet.UCSendMiddle, psn, full), DropSequence)
	}
	s.dropped(s.say(packet.UCSendLast, 107, full), DropSequence)
	s.take(s.say(packet.UCSendOnly, 108, []byte("x")))
	s.want(rnic.OpRecv, 1, 1)
}

// The PSN wraps, and any unexpected PSN is a gap; initial values are the programmed ones.
func TestExpectedPSN(t *testing.T) {
	conformance.Proves(t, "IBU-040", "IBU-061", "IBU-067", "IBU-069")
	for _, psn := range []uint32{0, 1, 0x800000, 0xffffff} {
		a, b := pair(t, 256, psn)
		b.recv(1, 600)
		a.post(rnic.SendWR{SGL: [][]byte{make([]byte, 600)}})
		fs := a.send()
		if h, _ := fs[0].header(t); h.PSN != psn {
			t.Errorf("PSN %06x, want %06x", h.PSN, psn)
		}
		b.take(fs...)
		b.want(rnic.OpRecv, 1, 600)
		if b.qp.Counters().Gaps != 0 || b.epsn() != (psn+3)&maxPSN {
			t.Errorf("from %06x: %d gaps, expects %06x", psn, b.qp.Counters().Gaps, b.epsn())
		}
	}
	s := responder(t, 0)
	s.recv(1, 10, 10, 10, 10)
	for i, psn := range []uint32{0x700000, 0x700001, 5, 5 - 6 + 1<<24} {
		if d := s.take(s.say(packet.UCSendOnly, psn, nil)); d != Accepted {
			t.Errorf("PSN %06x: %v", psn, d)
		}
		s.want(rnic.OpRecv, uint64(i+1), 0)
	}
	if n := s.qp.Counters().Gaps; n != 3 {
		t.Errorf("%d gaps", n)
	}
}

// Packets have the lengths and pads that their position in the message requires: rules C9-194 to
// C9-199.
func TestLengths(t *testing.T) {
	conformance.Proves(t, "IBU-101", "IBU-103", "IBU-105", "IBU-107", "IBU-111", "IBU-113", "IBU-167", "IBU-014", "IBU-214")
	for _, row := range []struct {
		op   packet.Opcode
		n    int
		want Drop
	}{
		{packet.UCSendFirst, 252, DropLength}, {packet.UCSendFirst, 255, DropLength}, {packet.UCSendFirst, 257, DropLength}, {packet.UCSendFirst, 260, DropLength},
		{packet.UCSendFirst, 0, DropLength}, {packet.UCSendFirst, 256, Accepted},
		{packet.UCSendOnly, 0, Accepted}, {packet.UCSendOnly, 1, Accepted}, {packet.UCSendOnly, 256, Accepted}, {packet.UCSendOnly, 257, DropLength}, {packet.UCSendOnly, 260, DropLength},
		{packet.UCSendMiddle, 252, DropLength}, {packet.UCSendMiddle, 257, DropLength}, {packet.UCSendMiddle, 256, Accepted},
		{packet.UCSendLast, 0, DropLength}, {packet.UCSendLast, 1, Accepted}, {packet.UCSendLast, 256, Accepted}, {packet.UCSendLast, 257, DropLength},
		{packet.UCSendLastImm, 0, DropLength},
	} {
		s := responder(t, rnic.RemoteWrite)
		s.recv(1, 600)
		psn := uint32(100)
		if !row.op.Starts() {
			s.take(s.say(packet.UCSendFirst, psn, make([]byte, 256)))
			psn++
		}
		f := s.say(row.op, psn, pattern(row.n, 1))
		if row.want == Accepted {
			if d := s.take(f); d != Accepted {
				t.Errorf("%v of %d bytes: %v", row.op, row.n, d)
			}
			continue
		}
		s.dropped(f, row.want)
		s.take(s.say(packet.UCSendOnly, psn+1, []byte("ok")))
		s.want(rnic.OpRecv, 1, 2)
	}
	// A First of 258 bytes, which are padded to 260, is too long.
	s := responder(t, 0)
	s.recv(1, 600)
	s.dropped(s.say(packet.UCSendFirst, 100, make([]byte, 258)), DropLength)
	s.dropped(s.say(packet.UCSendFirst, 101, make([]byte, 256), func(h *packet.Header) { h.Pad = 0 }), Accepted)
}

// A message without a receive, or with a receive too small, is dropped. The next message uses this
// receive.
func TestReceiveResources(t *testing.T) {
	conformance.Proves(t, "IBU-014", "IBU-101", "IBU-163", "IBU-022", "IBU-024")
	s := responder(t, rnic.RemoteWrite)
	mr, mem := s.host.region(t, 64, rnic.RemoteWrite)
	s.dropped(s.say(packet.UCSendOnly, 100, []byte("x")), DropNoReceive)
	s.dropped(s.say(packet.UCWriteOnlyImm, 101, []byte("x"), to(mr, 0, 1)), DropNoReceive)
	s.dropped(s.say(packet.UCSendOnly, 102, make([]byte, 300)), DropNoReceive) // before the length
	s.dropped(s.say(packet.UCSendLast, 103, []byte("x")), DropSequence)        // before the receive
	if d := s.take(s.say(packet.UCWriteOnly, 104, []byte("hello"), to(mr, 3, 5))); d != Accepted || string(mem[3:8]) != "hello" {
		t.Errorf("a Write without receives: %v, %q", d, mem)
	}
	guard := make([]byte, 512)
	buf := guard[:257:257]
	if err := s.vqp.PostRecv(rnic.RecvWR{ID: 1, Buf: buf}, rnic.RecvWR{ID: 2, Buf: make([]byte, 5)}); err != nil {
		t.Fatalf("PostRecv: %v", err)
	}
	s.take(s.say(packet.UCSendFirst, 105, pattern(256, 1)))
	s.dropped(s.say(packet.UCSendLast, 106, []byte("two")), DropLength)
	if !bytes.Equal(guard[257:], make([]byte, 255)) {
		t.Error("bytes after the buffer were written")
	}
	s.take(s.say(packet.UCSendOnly, 107, []byte("fits")))
	s.want(rnic.OpRecv, 1, 4)
	s.dropped(s.say(packet.UCSendOnly, 108, make([]byte, 100)), DropLength)
	s.take(s.say(packet.UCSendOnly, 109, []byte("small")))
	s.want(rnic.OpRecv, 2, 5)
}

// A pool buffer is taken when a message begins, kept for the next one after a loss, and returned
// at the end.
func TestPooledReceives(t *testing.T) {
	s := responder(t, 0)
	pool := rnic.NewBufferPool(300)
	if err := s.vqp.PostRecv(rnic.RecvWR{ID: 1, Pool: pool}, rnic.RecvWR{ID: 2, Pool: pool}); err != nil {
		t.Fatalf("PostRecv: %v", err)
	}
	s.take(s.say(packet.UCSendFirst, 100, pattern(256, 1)))
	first := s.qp.in.wr.Buf
	s.take(s.say(packet.UCSendOnly, 101, []byte("new")))
	wc := s.want(rnic.OpRecv, 1, 3)
	if &wc.Buf[0] != &first[0] || string(wc.Buf[:3]) != "new" {
		t.Errorf("%q", wc.Buf[:3])
	}
	s.take(s.say(packet.UCSendFirst, 102, pattern(256, 1)))
	s.end.Abort(nil)
	wcs := s.completions()
	must.Equal(t, "len(wcs)", len(wcs), 1)
	must.Equal(t, "wcs[0].Status", wcs[0].Status, rnic.WCFlushErr)
	if wcs[0].Buf != nil {
		t.Fatalf("wcs[0].Buf: %v, want nil", wcs[0].Buf)
	}
	if s.qp.in.held || s.qp.in.wr.Buf != nil {
		t.Error("the buffer of a message that was not whole is held")
	}
}

// Writes to targets that they MUST NOT reach are dropped, whether for the key or for the last byte.
// Memory is unchanged, and the QP continues.
func TestWriteRights(t *testing.T) {
	conformance.Proves(t, "IBU-013", "IBU-015", "IBU-023", "IBU-025", "IBU-026", "IBU-093", "IBU-094", "IBU-095", "IBU-096", "IBU-097", "IBU-166", "IBU-008")
	s := responder(t, rnic.RemoteWrite)
	s.recv(1, 10)
	mr, mem := s.host.region(t, 1000, rnic.RemoteWrite)
	read, _ := s.host.region(t, 1000, rnic.RemoteRead)
	gone, _ := s.host.region(t, 1000, rnic.RemoteWrite)
	stale, _ := s.host.region(t, 1000, rnic.RemoteWrite)
	foreign, err := s.host.dev.AllocPD().RegMR(make([]byte, 1000), rnic.RemoteWrite)
	if err != nil {
		t.Fatalf("RegMR: %v", err)
	}
	old := to(stale, 0, 256)
	var oldKey packet.Header
	old(&oldKey)
	stale.Invalidate()
	if err := stale.Rereg(make([]byte, 1000), rnic.RemoteWrite); err != nil {
		t.Fatalf("Rereg: %v", err)
	}
	key := to(gone, 0, 256)
	var goneKey packet.Header
	key(&goneKey)
	gone.Dereg()
	psn := uint32(100)
	reth := func(h packet.RETH) func(*packet.Header) { return func(p *packet.Header) { p.RETH = h } }
	base, tag := mr.Base(), uint32(mr.STag())
	for name, change := range map[string]func(*packet.Header){
		"wrong key": reth(packet.RETH{VA: base, RKey: tag ^ 1, Length: 256}), "unknown index": reth(packet.RETH{VA: base, RKey: tag ^ 1<<20, Length: 256}),
		"stale key": reth(oldKey.RETH), "deregistered": reth(goneKey.RETH), "right not granted": to(read, 0, 256), "other PD": to(foreign, 0, 256),
		"one byte past": to(mr, 745, 256), "before": reth(packet.RETH{VA: base - 1, RKey: tag, Length: 256}), "wraps": reth(packet.RETH{VA: 1<<64 - 1, RKey: tag, Length: 256}),
	} {
		s.dropped(s.say(packet.UCWriteOnly, psn, pattern(256, 9), change), DropAccess)
		psn++
		_ = name
	}
	// A First's RETH is checked for the whole message; a Middle against the rest.
	s.dropped(s.say(packet.UCWriteFirst, psn, pattern(256, 9), to(mr, 0, 1001)), DropAccess)
	s.dropped(s.say(packet.UCWriteOnly, psn+1, pattern(256, 9), to(mr, 0, 255)), DropLength)
	s.dropped(s.say(packet.UCWriteOnly, psn+2, pattern(255, 9), to(mr, 0, 256)), DropLength)
	s.dropped(s.say(packet.UCWriteFirst, psn+3, pattern(256, 9), to(mr, 0, 0)), DropLength)
	s.dropped(s.say(packet.UCWriteFirst, psn+4, pattern(256, 9), to(mr, 0, 1<<31+1)), DropLength)
	if !bytes.Equal(mem, make([]byte, 1000)) {
		t.Error("memory was written")
	}
	for _, last := range []struct {
		n    int
		want Drop
	}{{99, DropLength}, {101, DropLength}, {100, Accepted}} {
		s.take(s.say(packet.UCWriteFirst, 500, pattern(256, 9), to(mr, 600, 356)))
		if d := s.take(s.say(packet.UCWriteLast, 501, pattern(last.n, 10))); d != last.want {
			t.Errorf("LAST of %d bytes where 100 are left: %v", last.n, d)
		}
	}
	if mem[956] != 0 || !bytes.Equal(mem[600:956], append(pattern(256, 9), pattern(100, 10)...)) {
		t.Error("the Write is not in its place")
	}
	// A region invalidated during a Write is not touched from then on.
	s.take(s.say(packet.UCWriteFirst, 600, pattern(256, 1), to(mr, 0, 768)))
	mr.Invalidate()
	s.dropped(s.say(packet.UCWriteMiddle, 601, pattern(256, 2)), DropAccess)
	s.dropped(s.say(packet.UCWriteLast, 602, pattern(256, 2)), DropSequence)

	// The QP's right is checked first: before the key, and before the receive for immediate data.
	s = responder(t, rnic.RemoteRead)
	mr, mem = s.host.region(t, 1000, rnic.RemoteWrite)
	s.dropped(s.say(packet.UCWriteOnly, 100, pattern(256, 9), to(mr, 0, 256)), DropUnsupported)
	s.dropped(s.say(packet.UCWriteOnly, 101, pattern(256, 9), reth(packet.RETH{RKey: 1, Length: 256})), DropUnsupported)
	if !bytes.Equal(mem, make([]byte, 1000)) {
		t.Error("memory was written")
	}
}

// A Write without data ignores its R_Key.
func TestEmptyWriteNeedsNoKey(t *testing.T) {
	conformance.Proves(t, "IBU-099")
	s := responder(t, rnic.RemoteWrite)
	s.recv(4, 10)
	none := func(h *packet.Header) { h.RETH = packet.RETH{RKey: 0xffffffff} }
	if d := s.take(s.say(packet.UCWriteOnly, 100, nil, none)); d != Accepted {
		t.Errorf("take: %v, want %v", d, Accepted)
	}
	s.none()
	if d := s.take(s.say(packet.UCWriteOnlyImm, 101, nil, none)); d != Accepted {
		t.Errorf("take: %v, want %v", d, Accepted)
	}
	s.want(rnic.OpRecvWrite, 4, 0)
}
