// Random calls that become busy, with and without calling Busy.

package transport

import (
	"context"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/lead"
)

// TestReceiverModel: random calls over TCP in simulated time. At most one goroutine receives on
// the connection, each call runs once and gets its own reply, and none waits longer than the
// clock allows.
func TestReceiverModel(t *testing.T) {
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) { receiverModel(t, rand.New(rand.NewPCG(seed, 0))) })
		if t.Failed() {
			t.Fatalf("schedule %d", seed)
		}
	}
}

func receiverModel(t *testing.T, rnd *rand.Rand) {
	b := new(busyProgram)
	p := b.program()
	var leaders atomic.Int32
	for i := range p.Procs {
		run := p.Procs[i].Run
		p.Procs[i].Run = func(c *Call) error {
			if c.standing == standsHere {
				if leaders.Add(1) != 1 {
					t.Error("two goroutines receive")
				}
				leaders.Add(-1)
			}
			return run(c)
		}
	}
	s := NewServer(ServerConfig{}, p)
	ours, theirs := net.Pipe()
	c := newTCPConn(s, theirs)
	s.add(c, theirs.RemoteAddr())
	go c.begin()
	const calls = 60
	var wg sync.WaitGroup
	seen := map[uint32]int{}
	wg.Go(func() {
		for range calls {
			var head [markLen + 28]byte
			if _, err := io.ReadFull(ours, head[:]); err != nil {
				t.Errorf("a reply: %v", err)
				return
			}
			seen[binary.BigEndian.Uint32(head[4:])]++
		}
	})
	var want [bProcs]int32
	for xid := range uint32(calls) {
		proc := uint32(rnd.IntN(bProcs))
		want[proc]++
		m := callOf(xid, proc, uint32(rnd.IntN(1+rnd.IntN(6))*rnd.IntN(2)*millisecond))
		rec := binary.BigEndian.AppendUint32(nil, uint32(len(m.Stream))|lastFragment)
		if _, err := ours.Write(append(rec, m.Stream...)); err != nil {
			t.Errorf("call %d: %v", xid, err)
		}
		if rnd.IntN(3) == 0 {
			time.Sleep(time.Duration(rnd.IntN(4)) * time.Millisecond)
		}
	}
	wg.Wait()
	for i := range want {
		if got := b.ran[i].Load(); got != want[i] {
			t.Errorf("procedure %d was run %d times, want %d", i, got, want[i])
		}
	}
	if len(seen) != calls {
		t.Errorf("%d calls have replies, want %d", len(seen), calls)
	}
	ours.Close()
	if err := s.Shutdown(context.Background()); err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	c.work.check(t)
}

// check expects no call of a connection to have a share.
func (l *connQueues) check(t *testing.T) {
	if l.running != 0 || l.waiting != 0 {
		t.Errorf("%d calls have a share, %d wait, want none", l.running, l.waiting)
	}
}

// TestBusyCalls: concurrent calls of all kinds get their results, and each runs once, over each
// network.
func TestBusyCalls(t *testing.T) {
	overEach(t, func(t *testing.T, n network) {
		b := new(busyProgram)
		s := NewServer(ServerConfig{}, b.program())
		addr, done, err := n.serve(s, "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		c := n.client(t, addr, ClientConfig{MaxRetries: -1})
		const callers, calls = 10, 40
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() {
				rnd := rand.New(rand.NewPCG(uint64(i), 1))
				for range calls {
					out := words{9}
					micros := rnd.IntN(300)
					if rnd.IntN(20) == 0 {
						micros = 5 * millisecond
					}
					if err := c.Call(bg, testProc(uint32(rnd.IntN(bProcs))), words{uint32(micros)}, out, nil, 0); err != nil || out[0] != resDone {
						t.Errorf("a call: %v, %v", out, err)
					}
				}
			})
		}
		wg.Wait()
		total := int32(0)
		for i := range b.ran {
			total += b.ran[i].Load()
		}
		if total != callers*calls {
			t.Errorf("%d calls were run, want %d", total, callers*calls)
		}
		shutdown(t, s, done)
	})
}

// TestBusyCallHoldsUpNone: a waiting call that had its connection for itself delays none after
// it, and Shutdown waits for it.
func TestBusyCallHoldsUpNone(t *testing.T) {
	overEach(t, func(t *testing.T, n network) {
		p := newTestProgram()
		s := NewServer(ServerConfig{}, p.program())
		addr, done, err := n.serve(s, "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		c := n.client(t, addr, ClientConfig{MaxRetries: -1})
		echo := func() {
			t.Helper()
			out := text{}
			if err := c.Call(bg, testProc(tEcho), &text{[]byte("abc")}, &out, nil, 0); err != nil || string(out.s) != "abc" {
				t.Errorf("%q, %v", out.s, err)
			}
		}
		for range 3 * lead.AloneMin {
			echo()
		}
		errs := make(chan error, 1)
		go func() { errs <- c.Call(bg, testProc(tHold), nil, words{0}, nil, 0) }()
		<-p.entered
		for range 3 {
			echo()
		}
		ended := make(chan error, 1)
		go func() { ended <- s.Shutdown(bg) }()
		<-done
		select {
		case err := <-ended:
			t.Errorf("Shutdown has not waited: %v", err)
		default:
		}
		p.release()
		if err := <-errs; err != nil {
			t.Errorf("the call that waited: %v", err)
		}
		if err := <-ended; err != nil {
			t.Errorf("Shutdown: %v", err)
		}
	})
}
