// Segments that the RNIC must refuse: foreign STags, and wrong queues and numbers.

package hostile

import (
	"context"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/rdmap"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/term"
	"github.com/nfsrdma/nfsrdma/test/conformance"
	"github.com/nfsrdma/nfsrdma/test/stack/peer"
	"github.com/nfsrdma/nfsrdma/test/stack/rig"
)

// A victim is a QP of ours with memory of each kind, and a peer connected to it.
type victim struct {
	*peer.Peer
	t                    *testing.T
	dev                  *rnic.Device
	pd                   *rnic.PD
	qp                   *rnic.QP
	cq                   *rnic.CQ
	wmem, rmem, lmem     []byte
	write, read, private *rnic.MR // remote write, remote read, local write alone
}

const memLen = 4096

func newVictim(t *testing.T) *victim {
	t.Helper()
	rig.NoLeaks(t)
	dev := iwarp.Open(rnic.DeviceConfig{MaxIRD: 4})
	v := victimOn(t, dev)
	l, err := dev.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	defer l.Close()
	accepted := make(chan error, 1)
	go func() {
		r, err := l.Accept(context.Background())
		if err == nil {
			err = r.Accept(v.qp, rnic.ConnParams{IRD: 4})
		}
		accepted <- err
	}()
	f := peer.Request()
	f.Enhanced = mpa.Enhanced{IRD: 4, ORD: 4}
	v.Peer = peer.DialWith(t, l.Addr().String(), f)
	if err := <-accepted; err != nil {
		t.Fatalf("accepted: %v", err)
	}
	// the victim may send only after this first FPDU
	v.Segment(ddp.Header{Tagged: true, Last: true, Ctrl: rdmap.Control(rdmap.OpWrite)}, nil)
	return v
}

// victimOn makes a QP with memory, not connected.
func victimOn(t *testing.T, dev *rnic.Device) *victim {
	t.Helper()
	v := &victim{t: t, dev: dev, pd: dev.AllocPD(), cq: dev.NewCQ(64)}
	qp, err := v.pd.CreateQP(rnic.QPConfig{SendCQ: v.cq, RecvCQ: v.cq, SQDepth: 16, RQDepth: 16})
	if err != nil {
		t.Fatalf("CreateQP: %v", err)
	}
	v.qp = qp
	t.Cleanup(func() { qp.Close() })
	for i := range 4 {
		if err := qp.PostRecv(rnic.RecvWR{ID: uint64(i), Buf: make([]byte, 256)}); err != nil {
			t.Fatalf("PostRecv: %v", err)
		}
	}
	v.wmem, v.rmem, v.lmem = make([]byte, memLen), pattern(memLen), make([]byte, memLen)
	v.write, v.read, v.private = v.reg(v.wmem, rnic.RemoteWrite), v.reg(v.rmem, rnic.RemoteRead), v.reg(v.lmem, rnic.LocalWrite)
	return v
}

func (v *victim) reg(b []byte, access rnic.Access) *rnic.MR {
	mr, err := v.pd.RegMR(b, access)
	if err != nil {
		v.t.Fatalf("RegMR: %v", err)
	}
	v.t.Cleanup(mr.Dereg)
	return mr
}

// to sends a tagged segment of an RDMA Write.
func (v *victim) to(stag rnic.STag, to uint64, n int) {
	v.t.Helper()
	v.Segment(ddp.Header{Tagged: true, Last: true, Ctrl: rdmap.Control(rdmap.OpWrite), STag: uint32(stag), TO: to}, pattern(n)[:n])
}

// from sends a Read Request.
func (v *victim) from(stag rnic.STag, to uint64, n uint32) {
	v.t.Helper()
	q := rdmap.ReadRequest{SinkSTag: 0x5117, SinkTO: 42, Size: n, SrcSTag: uint32(stag), SrcTO: to}
	v.Segment(ddp.Header{Last: true, Ctrl: rdmap.Control(rdmap.OpReadRequest), QN: ddp.QNRead, MSN: v.ReadMSN}, q.Append(nil))
	v.ReadMSN++
}

// untouched wants all bytes of the victim's memory unchanged.
func (v *victim) untouched() {
	v.t.Helper()
	v.write.Invalidate()
	v.private.Invalidate()
	for i := range memLen {
		if v.wmem[i] != 0 || v.lmem[i] != 0 {
			v.t.Fatalf("byte %d was placed", i)
		}
	}
}

// refused attacks a new victim. It wants a Terminate with the code, and no byte placed.
func refused(t *testing.T, code term.Code, what string, do func(v *victim)) {
	t.Helper()
	t.Run(what, func(t *testing.T) {
		v := newVictim(t)
		do(v)
		v.WantTerminate(what, code)
		v.untouched()
	})
}

func TestInvalidateOfAnotherConnection(t *testing.T) {
	conformance.Proves(t, "R5040-133", "R5040-135", "R5040-205")
	refused(t, term.RDMAPForeignInvalidate, "another PD", func(v *victim) {
		other := victimOn(v.t, v.dev)
		v.Send(rdmap.OpSendInvalidate, uint32(other.write.STag()), 1)
		v.t.Cleanup(func() {
			if !other.write.Valid() {
				v.t.Error("the STag of another connection was invalidated")
			}
		})
	})
	refused(t, term.RDMAPForeignInvalidate, "another QP of the PD", func(v *victim) {
		second, err := v.pd.CreateQP(rnic.QPConfig{SendCQ: v.cq, RecvCQ: v.cq, SQDepth: 1, RQDepth: 1})
		if err != nil {
			v.t.Fatalf("CreateQP: %v", err)
		}
		v.t.Cleanup(func() { second.Close() })
		v.write.Bind(second)
		v.Send(rdmap.OpSendInvalidate, uint32(v.write.STag()), 1)
	})
}

func TestInvalidateOfAFreedSTag(t *testing.T) {
	refused(t, term.RDMAPCannotInvalidate, "freed", func(v *victim) {
		mr := v.reg(make([]byte, 10), rnic.RemoteWrite)
		stag := mr.STag()
		mr.Dereg()
		v.Send(rdmap.OpSendInvalidate, uint32(stag), 1)
	})
	refused(t, term.RDMAPCannotInvalidate, "never there", func(v *victim) { v.Send(rdmap.OpSendSEInvalidate, 0, 1) })
	refused(t, term.RDMAPCannotInvalidate, "another key", func(v *victim) {
		v.Send(rdmap.OpSendInvalidate, uint32(v.write.STag())^1, 1)
	})
}

func TestInvalidateTwice(t *testing.T) {
	refused(t, term.RDMAPCannotInvalidate, "twice", func(v *victim) {
		v.Send(rdmap.OpSendInvalidate, uint32(v.write.STag()), 1)
		v.Send(rdmap.OpSendInvalidate, uint32(v.write.STag()), 1)
	})
}

func TestWriteOneBytePast(t *testing.T) {
	refused(t, term.DDPBounds, "one byte past", func(v *victim) { v.to(v.write.STag(), v.write.Base()+memLen-9, 10) })
	refused(t, term.DDPBounds, "one byte before", func(v *victim) { v.to(v.write.STag(), v.write.Base()-1, 10) })
	refused(t, term.DDPBounds, "far off", func(v *victim) { v.to(v.write.STag(), v.write.Base()+1<<62, 10) })
}

func TestWriteToAReadOnlyMR(t *testing.T) {
	refused(t, term.DDPInvalidSTag, "remote read alone", func(v *victim) { v.to(v.read.STag(), v.read.Base(), 10) })
	refused(t, term.DDPInvalidSTag, "local write alone", func(v *victim) { v.to(v.private.STag(), v.private.Base(), 10) })
}

func TestWriteOfAnotherConnection(t *testing.T) {
	refused(t, term.DDPSTagNotOfStream, "another PD", func(v *victim) {
		other := victimOn(v.t, v.dev)
		v.to(other.write.STag(), other.write.Base(), 10)
		v.t.Cleanup(other.untouched)
	})
}

func TestWriteAfterInvalidation(t *testing.T) {
	conformance.Proves(t, "R5040-134", "R5040-136", "R5040-207", "R5041-132")
	refused(t, term.DDPInvalidSTag, "local", func(v *victim) {
		stag := v.write.STag()
		v.write.Invalidate()
		v.to(stag, v.write.Base(), 10)
	})
	refused(t, term.DDPInvalidSTag, "remote", func(v *victim) {
		v.Send(rdmap.OpSendInvalidate, uint32(v.write.STag()), 1)
		v.to(v.write.STag(), v.write.Base(), 10)
	})
	refused(t, term.DDPInvalidSTag, "registered again", func(v *victim) {
		stag := v.write.STag()
		v.write.Invalidate()
		if err := v.write.Rereg(v.wmem, rnic.RemoteWrite); err != nil {
			v.t.Fatalf("Rereg: %v", err)
		}
		v.to(stag, v.write.Base(), 10)
	})
}

func TestWriteThatWraps(t *testing.T) {
	refused(t, term.DDPWrap, "to 0", func(v *victim) { v.to(v.write.STag(), 1<<64-5, 10) })
	refused(t, term.DDPWrap, "the whole range", func(v *victim) { v.to(v.write.STag(), 1<<64-1, memLen) })
}

// TestReadsBeyondIRD: more Reads than the IRD get a Terminate. The peer reads nothing meanwhile, so
// no Read can have been answered.
func TestReadsBeyondIRD(t *testing.T) {
	refused(t, term.DDPNoBuffer, "IRD + 1", func(v *victim) {
		var out []byte
		for range 50 {
			q := rdmap.ReadRequest{SinkSTag: 1, Size: 4096, SrcSTag: uint32(v.read.STag()), SrcTO: v.read.Base()}
			h := ddp.Header{Last: true, Ctrl: rdmap.Control(rdmap.OpReadRequest), QN: ddp.QNRead, MSN: v.ReadMSN}
			out = mpa.AppendFPDU(out, true, h.Append(nil), q.Append(nil))
			v.ReadMSN++
		}
		v.Say(out)
		for {
			msg, err := v.Next() // the answers to those within the IRD
			if err != nil {
				v.Unread(err)
				return
			}
			if len(msg) != 4096 {
				v.t.Fatalf("a response of %d bytes", len(msg))
			}
		}
	})
}

// TestReadOfNothing: a Read of 0 bytes names no memory, so any STag is valid (RFC 5040 §5.2.1
// [R5040-109]).
func TestReadOfNothing(t *testing.T) {
	conformance.Proves(t, "R5040-109", "R5040-110", "R5040-253")
	v := newVictim(t)
	for _, stag := range []rnic.STag{0, 1, 0xdeadbeef, v.write.STag()} {
		v.from(stag, 1<<63, 0)
		if msg, err := v.Next(); err != nil || len(msg) != 0 {
			t.Fatalf("%x, %v", msg, err)
		}
	}
	v.from(v.read.STag(), v.read.Base(), memLen)
	if msg, err := v.Next(); err != nil || string(msg) != string(v.rmem) {
		t.Fatalf("%d bytes, %v", len(msg), err)
	}
}

func TestReadOfAWriteOnlyMR(t *testing.T) {
	conformance.Proves(t, "R5040-202", "R5040-253")
	refused(t, term.RDMAPAccess, "remote write alone", func(v *victim) { v.from(v.write.STag(), v.write.Base(), 1) })
	refused(t, term.RDMAPAccess, "local write alone", func(v *victim) { v.from(v.private.STag(), v.private.Base(), 1) })
	refused(t, term.RDMAPInvalidSTag, "no such STag", func(v *victim) { v.from(0xdeadbe00, 0, 1) })
	refused(t, term.RDMAPBounds, "one byte past", func(v *victim) { v.from(v.read.STag(), v.read.Base()+1, memLen) })
	refused(t, term.RDMAPWrap, "wraps", func(v *victim) { v.from(v.read.STag(), 1<<64-1, 2) })
}

func TestReadResponseNobodyAskedFor(t *testing.T) {
	for _, n := range []int{0, 1, 100} {
		refused(t, term.RDMAPOpcode, "unasked", func(v *victim) {
			v.Segment(ddp.Header{Tagged: true, Last: true, Ctrl: rdmap.Control(rdmap.OpReadResponse),
				STag: uint32(v.private.STag()), TO: v.private.Base()}, pattern(n)[:n])
		})
	}
}

// sendAt sends one segment of a Send.
func (v *victim) sendAt(last bool, qn, msn, mo uint32, n int) {
	v.t.Helper()
	v.Segment(ddp.Header{Last: last, Ctrl: rdmap.Control(rdmap.OpSend), QN: qn, MSN: msn, MO: mo}, make([]byte, n))
}

func TestMSNSkippedOrRepeated(t *testing.T) {
	refused(t, term.DDPMSNRange, "skipped", func(v *victim) { v.sendAt(true, 0, 2, 0, 10) })
	refused(t, term.DDPMSNRange, "zero", func(v *victim) { v.sendAt(true, 0, 0, 0, 10) })
	refused(t, term.DDPMSNRange, "repeated", func(v *victim) {
		v.sendAt(true, 0, 1, 0, 10)
		v.sendAt(true, 0, 1, 0, 10)
	})
	refused(t, term.DDPMSNRange, "Read skipped", func(v *victim) {
		v.ReadMSN = 2
		v.from(v.read.STag(), v.read.Base(), 1)
	})
}

func TestMOPastTheEnd(t *testing.T) {
	refused(t, term.DDPInvalidMO, "first", func(v *victim) { v.sendAt(true, 0, 1, 300, 10) })
	refused(t, term.DDPInvalidMO, "2^32-1", func(v *victim) { v.sendAt(true, 0, 1, 1<<32-1, 10) })
	refused(t, term.DDPInvalidMO, "gap", func(v *victim) {
		v.sendAt(false, 0, 1, 0, 10)
		v.sendAt(true, 0, 1, 11, 10)
	})
	refused(t, term.DDPTooLong, "message", func(v *victim) {
		v.sendAt(false, 0, 1, 0, 256)
		v.sendAt(true, 0, 1, 256, 1)
	})
}

func TestQueueNumbers(t *testing.T) {
	for _, qn := range []uint32{3, 4, 1<<32 - 1} {
		refused(t, term.DDPInvalidQN, "a queue there is not", func(v *victim) { v.sendAt(true, qn, 1, 0, 10) })
	}
	refused(t, term.RDMAPOpcode, "a Send on the queue of Reads", func(v *victim) { v.sendAt(true, 1, 1, 0, 10) })
}

func TestReservedOpcodes(t *testing.T) {
	for op := rdmap.Opcode(8); op < 16; op++ {
		for _, tagged := range []bool{false, true} {
			refused(t, term.RDMAPOpcode, op.String(), func(v *victim) {
				v.Segment(ddp.Header{Tagged: tagged, Last: true, Ctrl: rdmap.Control(op), MSN: 1}, make([]byte, 40))
			})
		}
	}
}

func TestNoReceivePosted(t *testing.T) {
	refused(t, term.DDPNoBuffer, "fifth Send of four", func(v *victim) {
		for range 5 {
			v.Send(rdmap.OpSend, 0, 1)
		}
	})
}

// TestSTagGuessing: the first wrong guess ends the stream. So a peer can test one STag of 2^32 with
// each connection.
func TestSTagGuessing(t *testing.T) {
	v := newVictim(t)
	guess := uint32(v.write.STag()) + 0x100
	if guess == uint32(v.read.STag()) || guess == uint32(v.private.STag()) {
		guess += 0x300
	}
	v.to(rnic.STag(guess), v.write.Base(), 1)
	v.to(v.write.STag(), v.write.Base(), 1) // a right one comes too late
	v.WantTerminate("a guess", term.DDPInvalidSTag)
	v.untouched()
	select {
	case <-v.qp.Done():
	case <-time.After(time.Minute):
		t.Error("the QP lives on")
	}
}
