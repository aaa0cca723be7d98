// RC conversations: requests, answers, retransmissions, and fatal errors.

package core

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// wire formats frames as text: opcode, PSN, and the acknowledge's syndrome.
func wire(t testing.TB, fs []frame) (s string) {
	for _, f := range fs {
		h, _ := f.header(t)
		s += fmt.Sprintf("%s %x", strings.TrimPrefix(h.Opcode.String(), "RC "), h.PSN)
		if h.Opcode == packet.RCAck {
			s += fmt.Sprintf(" %v %d", h.AETH.Syndrome, h.AETH.MSN)
		}
		if h.AckReq {
			s += " A"
		}
		s += "; "
	}
	return s
}

// says expects these packets from a side.
func (s *side) says(want string) []frame {
	s.t.Helper()
	fs := s.send()
	if got := wire(s.t, fs); got != want {
		s.t.Fatalf("says\n%s, want\n%s", got, want)
	}
	return fs
}

// exchange lets both sides send until neither has a packet.
func exchange(a, b *side) {
	for {
		fs, gs := a.send(), b.send()
		if len(fs)+len(gs) == 0 {
			return
		}
		b.take(fs...)
		a.take(gs...)
	}
}

// tick advances a side's time to now.
func (s *side) tick(now Instant) {
	s.qp.Tick(now)
	s.end.end()
}

// Each operation is done once, with its packets and answers on the wire.
func TestOperationsOfRC(t *testing.T) {
	a, b := reliables(t, 256, 0xfffffe, nil)
	mr, mem := b.host.region(t, 1000, rnic.RemoteWrite|rnic.RemoteRead)
	own, _ := b.host.region(t, 10, rnic.RemoteWrite)
	own.Bind(b.vqp)
	ctr, eight := b.host.region(t, 8, rnic.RemoteAtomic)
	sink, got := a.host.region(t, 1000, rnic.LocalWrite)
	b.recv(1, 700, 700, 700)

	a.post(rnic.SendWR{ID: 1, Op: rnic.OpSendSE, SGL: [][]byte{pattern(600, 1)}})
	b.take(a.says("SEND First fffffe; SEND Middle ffffff; SEND Last 0 A; ")...)
	a.none()
	if wc := b.want(rnic.OpRecv, 1, 600); !wc.Solicited || !bytes.Equal(wc.Buf[:600], pattern(600, 1)) {
		t.Errorf("%+v", wc)
	}
	a.take(b.says("Acknowledge 0 ACK 1; ")...)
	a.want(rnic.OpSendSE, 1, 600)

	a.post(rnic.SendWR{ID: 2, Op: rnic.OpSendInvalidate, SGL: [][]byte{[]byte("bye")}, Invalidate: own.STag()})
	b.take(a.says("SEND Only with Invalidate 1 A; ")...)
	if wc := b.want(rnic.OpRecv, 2, 3); wc.Invalidated != own.STag() || own.Valid() {
		t.Errorf("%+v, valid %v", wc, own.Valid())
	}
	a.take(b.says("Acknowledge 1 ACK 2; ")...)
	a.want(rnic.OpSendInvalidate, 2, 3)

	a.post(rnic.SendWR{ID: 3, Op: rnic.OpWriteSEImmediate, SGL: pieces(pattern(300, 2)), RemoteSTag: mr.STag(), RemoteTO: mr.Base() + 9, Immediate: 77})
	b.take(a.says("RDMA WRITE First 2; RDMA WRITE Last with Immediate 3 A; ")...)
	if wc := b.want(rnic.OpRecvWrite, 3, 300); wc.Value != 77 || !wc.Immediate || !wc.Solicited || !bytes.Equal(mem[9:309], pattern(300, 2)) {
		t.Errorf("%+v", wc)
	}
	exchange(a, b)
	a.want(rnic.OpWriteSEImmediate, 3, 300)

	a.post(rnic.SendWR{ID: 4, Op: rnic.OpReadInvalidate, MR: sink, Offset: 5, Length: 600, RemoteSTag: mr.STag(), RemoteTO: mr.Base() + 9})
	b.take(a.says("RDMA READ Request 4 A; ")...)
	copy(mem[9:], pattern(600, 3)) // Read data is taken when it is sent
	fs := b.says("RDMA READ response First 4; RDMA READ response Middle 5; RDMA READ response Last 6; ")
	a.take(fs[:2]...)
	a.none()
	a.take(fs[2])
	a.want(rnic.OpReadInvalidate, 4, 600)
	if !bytes.Equal(got[5:605], pattern(600, 3)) || sink.Valid() {
		t.Error("the Read brought other bytes, or its sink is valid")
	}

	binary.NativeEndian.PutUint64(eight, 40)
	for i, at := range []rnic.Atomic{{Data: 2}, {Data: 9, Mask: 1<<64 - 1, Compare: 42, CompareMask: 1<<64 - 1}, {Data: 1, Mask: 1<<64 - 1, Compare: 42, CompareMask: 1<<64 - 1}} {
		op := []rnic.Opcode{rnic.OpFetchAdd, rnic.OpCmpSwap, rnic.OpCmpSwap}[i]
		a.post(rnic.SendWR{ID: 5, Op: op, Atomic: &at, RemoteSTag: ctr.STag(), RemoteTO: ctr.Base()})
		exchange(a, b)
		if wc := a.want(op, 5, 8); wc.Value != []uint64{40, 42, 9}[i] {
			t.Errorf("%v found %d", op, wc.Value)
		}
	}
	if v := binary.NativeEndian.Uint64(eight); v != 9 {
		t.Errorf("the counter is %d", v)
	}
	a.post(rnic.SendWR{ID: 6, Op: rnic.OpLocalInvalidate, MR: sink})
	a.says("")
	a.want(rnic.OpLocalInvalidate, 6, 0)
	if _, ok := a.qp.Deadline(); ok || a.qp.Outstanding() {
		t.Error("something is awaited")
	}
}

// One acknowledge covers all earlier requests, which all complete.
func TestAcknowledgesCoalesce(t *testing.T) {
	a, b := reliables(t, 256, 5, nil)
	b.recv(0, 10, 10, 10, 10)
	for i := range 4 {
		a.post(rnic.SendWR{ID: uint64(i)})
	}
	b.take(a.send()...)
	a.take(b.says("Acknowledge 8 ACK 4; ")...)
	if wcs := a.completions(); len(wcs) != 4 {
		t.Error(wcs)
	}
}

// A gap is reported once. The requester retransmits from there, and packets that came after the
// gap are executed once.
func TestSequenceNAK(t *testing.T) {
	a, b := reliables(t, 256, 5, nil)
	b.recv(0, 10, 10, 10, 10)
	for i := range 4 {
		a.post(rnic.SendWR{ID: uint64(i)})
	}
	fs := a.send()
	// A duplicate, whose acknowledge does not replace the NAK.
	for _, f := range []frame{fs[0], fs[2], fs[3], fs[0]} {
		b.take(f)
	}
	b.tick(nakDelay)
	a.take(b.says("Acknowledge 6 NAK, PSN sequence error 1; ")...)
	a.want(rnic.OpSend, 0, 0)
	b.take(a.says("SEND Only 6 A; SEND Only 7 A; SEND Only 8 A; ")...)
	exchange(a, b)
	if n, m := len(a.completions()), len(b.completions()); n != 3 || m != 4 {
		t.Errorf("%d, %d", n, m)
	}
	if b.qp.Counters().Gaps != 1 {
		t.Errorf("%d gaps", b.qp.Counters().Gaps)
	}
	// The next gap is a new one, and reported as well.
	b.recv(4, 10, 10)
	a.post(rnic.SendWR{ID: 4})
	a.post(rnic.SendWR{ID: 5})
	b.take(a.send()[1])
	b.tick(b.qp.res.gap.nextNAK)
	a.take(b.says("Acknowledge 9 NAK, PSN sequence error 4; ")...)
	exchange(a, b)
	if n, m := len(a.completions()), len(b.completions()); n != 2 || m != 2 {
		t.Errorf("%d, %d", n, m)
	}
}

// Without an answer everything is retransmitted RetryCount times, then the QP ends.
func TestRetries(t *testing.T) {
	a, b := reliables(t, 256, 5, func(at *Attrs) { at.RetryCount = 2 })
	b.recv(0, 10)
	a.post(rnic.SendWR{ID: 1})
	a.post(rnic.SendWR{ID: 2})
	a.says("SEND Only 5 A; SEND Only 6 A; ")
	for range 2 {
		at := a.qp.req.deadline
		a.qp.req.probe = 0 // see TestProbes
		if next, ok := a.qp.Deadline(); !ok || next != at {
			t.Fatal("no deadline")
		}
		a.tick(at - 1)
		a.says("")
		a.tick(at)
		a.says("SEND Only 5 A; SEND Only 6 A; ")
		// a.says built them at instant 0: the deadline is the tick's.
	}
	a.tick(a.qp.req.deadline)
	wcs := a.completions()
	must.Equal(t, "len(wcs)", len(wcs), 2)
	must.Equal(t, "wcs[0].Status", wcs[0].Status, rnic.WCFlushErr)
	if !errors.Is(a.vqp.Err(), ErrRetry) {
		t.Fatalf("a.vqp.Err(): %v, want %v", a.vqp.Err(), ErrRetry)
	}
	if !errors.Is(a.vqp.Err(), rnic.ErrConnLost) {
		t.Fatalf("a.vqp.Err(): %v, want %v", a.vqp.Err(), rnic.ErrConnLost)
	}
	must.Equal(t, "a.state()", a.state(), ERR)
}

// Duplicates are not executed again: a Send is acknowledged, a Read read again, an atomic
// answered from memory.
func TestDuplicates(t *testing.T) {
	a, b := reliables(t, 256, 5, nil)
	b.recv(0, 10, 10)
	mr, mem := b.host.region(t, 600, rnic.RemoteRead)
	ctr, eight := b.host.region(t, 8, rnic.RemoteAtomic)
	sink, got := a.host.region(t, 600, rnic.LocalWrite)
	a.post(rnic.SendWR{ID: 1})
	a.post(rnic.SendWR{ID: 2, Op: rnic.OpFetchAdd, Atomic: &rnic.Atomic{Data: 5}, RemoteSTag: ctr.STag(), RemoteTO: ctr.Base()})
	a.post(rnic.SendWR{ID: 3, Op: rnic.OpRead, MR: sink, Length: 600, RemoteSTag: mr.STag(), RemoteTO: mr.Base()})
	first := a.says("SEND Only 5 A; FetchAdd 6 A; RDMA READ Request 7 A; ")
	b.take(first...)
	lost := b.says("Acknowledge 5 ACK 3; ATOMIC Acknowledge 6; RDMA READ response First 7; RDMA READ response Middle 8; RDMA READ response Last 9; ")
	a.tick(a.qp.req.deadline)
	again := a.says("SEND Only 5 A; FetchAdd 6 A; RDMA READ Request 7 A; ")
	copy(mem, pattern(600, 4))
	b.take(again...)
	fs := b.says("Acknowledge 5 ACK 3; ATOMIC Acknowledge 6; RDMA READ response First 7; RDMA READ response Middle 8; RDMA READ response Last 9; ")
	// An acknowledge for everything, which no peer should send, does not acknowledge missing
	// data.
	a.take(a.say(packet.RCAck, 9, nil, func(h *packet.Header) { h.AETH.MSN = 3 }))
	a.take(fs...)
	exchange(a, b)
	wcs := a.completions()
	must.Equal(t, "len(wcs)", len(wcs), 3)
	must.Equal(t, "wcs[1].Value", wcs[1].Value, 0)
	if !bytes.Equal(got, mem) {
		t.Fatalf("got: %.64x, want %.64x", got, mem)
	}
	if v := binary.NativeEndian.Uint64(eight); v != 5 || len(b.completions()) != 1 {
		t.Errorf("done twice: %d", v)
	}
	a.take(lost...) // late packets change nothing
	a.none()
	if a.state() != RTS || b.state() != RTS {
		t.Error(a.state(), b.state())
	}
}

// A Read repeated while its data is in flight restarts; one that exceeds the first request gets
// no answer.
func TestReadAgainWhileAnswered(t *testing.T) {
	a, b := reliables(t, 256, 5, nil)
	mr, mem := b.host.region(t, 2000, rnic.RemoteRead)
	copy(mem, pattern(2000, 1))
	sink, got := a.host.region(t, 600, rnic.LocalWrite)
	a.post(rnic.SendWR{ID: 3, Op: rnic.OpRead, MR: sink, Length: 600, RemoteSTag: mr.STag(), RemoteTO: mr.Base()})
	fs := a.send()
	b.take(fs...)
	for range 2 {
		b.qp.Next(0, make([]byte, MaxPacket)) // lost
	}
	b.take(fs...)
	again := b.says("RDMA READ response First 5; RDMA READ response Middle 6; RDMA READ response Last 7; ")
	// Four packets, but the Read had three.
	b.take(b.say(packet.RCReadRequest, 5, nil, to(mr, 0, 800)))
	b.says("")
	a.take(again...)
	a.want(rnic.OpRead, 3, 600)
	if !bytes.Equal(got, mem[:600]) {
		t.Error("other bytes")
	}
}

// Lost Read data is requested again from the first missing packet, once for each loss.
func TestReadContinuesAfterLoss(t *testing.T) {
	a, b := reliables(t, 256, 5, nil)
	mr, mem := b.host.region(t, 2000, rnic.RemoteRead)
	copy(mem, pattern(2000, 1))
	sink, got := a.host.region(t, 2000, rnic.LocalWrite)
	a.post(rnic.SendWR{ID: 3, Op: rnic.OpRead, MR: sink, Length: 2000, RemoteSTag: mr.STag(), RemoteTO: mr.Base()})
	b.take(a.send()...)
	fs := b.send()
	a.take(fs[0], fs[1], fs[3], fs[4], fs[5])
	again := a.says("RDMA READ Request 7 A; ")
	if h, _ := again[0].header(t); h.RETH.VA != mr.Base()+512 || h.RETH.Length != 1488 {
		t.Errorf("%+v", h.RETH)
	}
	b.take(again...)
	a.take(b.says("RDMA READ response First 7; RDMA READ response Middle 8; RDMA READ response Middle 9; RDMA READ response Middle a; RDMA READ response Middle b; RDMA READ response Last c; ")...)
	a.want(rnic.OpRead, 3, 2000)
	if !bytes.Equal(got, mem) {
		t.Error("other bytes")
	}
}

// An RNR NAK delays retransmission as requested, and at most RNRRetry times.
func TestReceiverNotReady(t *testing.T) {
	a, b := reliables(t, 256, 5, func(at *Attrs) { at.RNRRetry = 1; at.RNRTimer = 14 })
	a.post(rnic.SendWR{ID: 1, SGL: [][]byte{make([]byte, 300)}})
	a.post(rnic.SendWR{ID: 2})
	b.take(a.says("SEND First 5; SEND Last 6 A; SEND Only 7 A; ")...)
	a.take(b.says("Acknowledge 5 RNR NAK, 1.28ms 0; ")...)
	a.says("")
	at, ok := a.qp.Deadline()
	if !ok || at != 1_280_000 {
		t.Fatalf("%d, %v", at, ok)
	}
	b.recv(1, 300)
	a.tick(at)
	b.take(a.says("SEND First 5; SEND Last 6 A; SEND Only 7 A; ")...)
	b.want(rnic.OpRecv, 1, 300)
	a.take(b.says("Acknowledge 7 RNR NAK, 1.28ms 1; ")...) // progress restarts the count
	a.want(rnic.OpSend, 1, 300)
	at, _ = a.qp.Deadline()
	a.tick(at)
	b.take(a.says("SEND Only 7 A; ")...)
	a.take(b.says("Acknowledge 7 RNR NAK, 1.28ms 1; ")...)
	if !errors.Is(a.vqp.Err(), ErrRNR) {
		t.Fatalf("a.vqp.Err(): %v, want %v", a.vqp.Err(), ErrRNR)
	}
	must.Equal(t, "len(a.completions())", len(a.completions()), 1)
	must.Equal(t, "b.state()", b.state(), RTS)
}

// ORD limits Reads, a fence waits for them, and a Read needs an ORD above zero.
func TestReadDepth(t *testing.T) {
	a, b := reliables(t, 256, 5, func(at *Attrs) { at.MaxReads = 2 })
	mr, _ := b.host.region(t, 600, rnic.RemoteRead)
	sink, _ := a.host.region(t, 600, rnic.LocalWrite)
	b.recv(1, 10)
	for i := range 3 {
		a.post(rnic.SendWR{ID: uint64(i), Op: rnic.OpRead, MR: sink, Length: 8, RemoteSTag: mr.STag(), RemoteTO: mr.Base()})
	}
	a.post(rnic.SendWR{ID: 3, Fence: true})
	fs := a.says("RDMA READ Request 5 A; RDMA READ Request 6 A; ")
	b.take(fs...)
	rs := b.send()
	a.take(rs[0])
	b.take(a.says("RDMA READ Request 7 A; ")...)
	a.take(rs[1])
	a.says("")
	a.take(b.send()...)
	b.take(a.says("SEND Only 8 A; ")...)
	exchange(a, b)
	if wcs := a.completions(); len(wcs) != 4 {
		t.Error(wcs)
	}
	none, _ := reliables(t, 256, 5, func(at *Attrs) { at.MaxReads = 0 })
	if err := none.qp.Post([]rnic.Posted{{SendWR: rnic.SendWR{Op: rnic.OpRead}}}); !errors.Is(err, ErrNoORD) {
		t.Errorf("Post: %v, want %v", err, ErrNoORD)
	}
	if err := a.qp.Post([]rnic.Posted{{SendWR: rnic.SendWR{Op: rnic.OpFetchAdd, Atomic: &rnic.Atomic{Mask: 1}}}}); !errors.Is(err, ErrMasked) {
		t.Errorf("Post: %v, want %v", err, ErrMasked)
	}
}
