// Peers that never stop: Reads, calls beyond their credits, guesses, and noise for the log.

package hostile

import (
	"errors"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/machine"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/rdmap"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/term"
	"github.com/nfsrdma/nfsrdma/test/stack/peer"
	"github.com/nfsrdma/nfsrdma/test/stack/rig"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// reads returns n Read Requests for 0 bytes, which are legal.
func reads(p *peer.Peer, n int) (out []byte) {
	for range n {
		q := rdmap.ReadRequest{SinkSTag: 1, SrcSTag: 1}
		h := ddp.Header{Last: true, Ctrl: rdmap.Control(rdmap.OpReadRequest), QN: ddp.QNRead, MSN: p.ReadMSN}
		out = mpa.AppendFPDU(out, true, h.Append(nil), q.Append(nil))
		p.ReadMSN++
	}
	return out
}

// TestEndlessReads: endless Reads of 0 bytes are answered, and hold no more than IRD slots.
func TestEndlessReads(t *testing.T) {
	a := attack(t)
	b := newBound(t)
	for range some(100, 5000) {
		a.Say(reads(a.Peer, 100))
		for range 100 {
			if msg, err := a.Next(); err != nil || len(msg) > 0 {
				t.Fatalf("%x, %v", msg, err)
			}
		}
	}
	a.Null("Reads of nothing")
	a.works()
	b.within("Reads of nothing", small, 20)
	// Now the peer does not read the answers.
	narrow(a.C)
	for range 400 {
		a.Say(reads(a.Peer, 100))
	}
	var end error
	for end == nil {
		_, end = a.Next()
	}
	var got *peer.Terminated
	if errors.As(end, &got) && got.Code != term.DDPNoBuffer || got == nil && end != io.EOF {
		t.Errorf("Reads that are not taken end in %v", end)
	}
	a.works()
	b.within("Reads that nobody takes", small, 20)
}

// TestCreditsIgnored: a peer that ignores its credits runs out of receives, or is disconnected. It
// is served no more than others.
func TestCreditsIgnored(t *testing.T) {
	a := attack(t)
	b := newBound(t)
	for _, proc := range []uint32{nfs3.ProcNull, nfs3.ProcGetattr} {
		p := peer.Dial(t, a.s.RDMA)
		p.Null("before")
		var out []byte
		for range some(2000, 100000) {
			xid := peer.XID()
			h := ddp.Header{Last: true, Ctrl: rdmap.Control(rdmap.OpSend), MSN: p.SendMSN}
			out = mpa.AppendFPDU(out, true, h.Append(nil), peer.Inline(xid, peer.NFS(xid, proc, &nfs3.GetattrArgs{FH: a.root})))
			p.SendMSN++
		}
		p.Say(out)
		replies := 0
		var end error
		for ; end == nil; replies++ {
			_, end = p.Next()
		}
		var got *peer.Terminated
		if errors.As(end, &got) && got.Code != term.DDPNoBuffer || got == nil && end != io.EOF {
			t.Errorf("%v after %d replies", end, replies)
		}
		p.C.Close()
	}
	a.works()
	b.within("credits ignored", perConn+small, 80)
}

// TestSTagGuesses: a peer guesses STags of the server while some exist. Each guess costs it a
// connection.
func TestSTagGuesses(t *testing.T) {
	a := attack(t)
	fh := a.Create(a.root, "f")
	r := rand.New(rand.NewPCG(7, 8))
	for range some(40, 2000) {
		p := peer.Dial(t, a.s.RDMA)
		p.Null("before")
		var sink rdmap.ReadRequest
		p.OnRead = func(q *rdmap.ReadRequest) bool {
			sink = *q
			return false
		}
		c := &target{Peer: p, t: t}
		c.write(fh, 5000, func(pos uint32) []chunks.ReadSegment { return one(pos, 5, 5000, 0) })
		if _, err := p.Next(); err != peer.ErrRead {
			// the server has requested the chunk, so its sink exists
			t.Fatal(err)
		}
		guess := r.Uint32()
		if r.IntN(4) == 0 {
			guess = sink.SinkSTag // known, but of local use only
		}
		p.Segment(ddp.Header{Tagged: true, Last: true, Ctrl: rdmap.Control(rdmap.OpWrite), STag: guess, TO: sink.SinkTO}, []byte("guess"))
		p.WantTerminate("a guess", term.DDPInvalidSTag)
		p.C.Close()
	}
	a.content("after guesses", fh, nil)
	a.works()
}

// A logHook counts the lines of each cause.
type logHook struct {
	mu    sync.Mutex
	lines map[string]int
}

func (h *logHook) take(e machine.LogLine) {
	h.mu.Lock()
	h.lines[e.Message]++
	h.mu.Unlock()
}

// TestLogFlood: each cause is logged at most once a second.
func TestLogFlood(t *testing.T) {
	hook := &logHook{lines: map[string]int{}}
	machine.CaptureLog(t, hook.take)
	s, works := rig.Attacked(t, rig.Config{})
	start := time.Now()
	for end := start.Add(1500 * time.Millisecond); time.Now().Before(end); {
		p := peer.Dial(t, s.RDMA)
		p.Null("before")
		p.FPDU([]byte{0x42, 0x43})
		p.WantTerminate("noise", term.DDPLocal)
		p.C.Close()
		peer.Raw(t, s.RDMA).Say([]byte("GET / HTTP/1.0\r\n\r\n"))
		c := peer.DialTCP(t, s.TCP)
		c.Say(peer.Mark(1<<31-1, true))
		c.WantEnd("noise")
		c.C.Close()
	}
	works()
	hook.mu.Lock()
	defer hook.mu.Unlock()
	if len(hook.lines) == 0 {
		t.Error("nothing was logged at all")
	}
	took := time.Since(start)
	for cause, n := range hook.lines {
		if n > 1+int(took/time.Second) {
			t.Errorf("%q was logged %d times in %v", cause, n, took)
		}
	}
}
