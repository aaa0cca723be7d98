// Calls that the receive loop runs.

package transport

import (
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nfsrdma/nfsrdma/internal/lead"
	"time"
)

// A call that is alone is run by the receive loop, counted as a worker's; calls that wait for its
// end get workers.
func TestLentCallIsCounted(t *testing.T) {
	via := newTape("10.0.0.1")
	via.work.most, via.work.slots = 1, 1000
	ran := make(chan *Call, 10)
	p := workerPool{run: func(c *Call) { ran <- c }}
	p.init(100, 8, nil)
	p.join(&via.work, via.peer.client())
	via.lends = true
	first, second, third := &Call{via: via}, &Call{via: via}, &Call{via: via}
	if !p.submit(first, true) || via.lent != first {
		t.Fatal("not lent")
	}
	via.lent = nil
	if !p.submit(second, false) || !p.submit(third, true) || via.lent != nil || via.work.running != 1 || via.work.waiting != 2 {
		t.Fatalf("%d run, %d wait", via.work.running, via.work.waiting)
	}
	p.runLent(first)
	for i, want := range []*Call{first, second, third} {
		select {
		case c := <-ran:
			if c != want {
				t.Errorf("call %d is another one", i)
			}
		case <-time.After(time.Minute):
			t.Fatal("a call that waited has no worker")
		}
	}
	p.close(true)
}

// Over RDMA a client's call that waits, and that its connection's receive loop runs, holds up none
// that comes after it, and is waited for by Shutdown.
func TestLentCallHoldsUpNone(t *testing.T) {
	n := networks[1]
	p := newTestProgram()
	s := NewServer(ServerConfig{}, p.program())
	addr, done, err := n.serve(s, "127.0.0.1:0")
	if err != nil {
		t.Fatalf("serve: %v", err)
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
}

// Short calls that come together are run by the receive loop of their connection, and none is held
// up by one that takes long after all.
func TestShortCallsThatAreLent(t *testing.T) {
	n := networks[1]
	p := newTestProgram()
	prog := p.program()
	var asked atomic.Int32
	for _, proc := range []int{tEcho, tHold, tCount} {
		prog.Procs[proc].Short = func(*Call) bool { asked.Add(1); return true }
	}
	var byLoop atomic.Int32
	echo := prog.Procs[tEcho].Run
	prog.Procs[tEcho].Run = func(c *Call) error {
		if strings.Contains(string(debug.Stack()), "iwarp.(*stream).runLent") {
			byLoop.Add(1)
		}
		return echo(c)
	}
	s := NewServer(ServerConfig{}, prog)
	addr, done, err := n.serve(s, "127.0.0.1:0")
	if err != nil {
		t.Fatalf("serve: %v", err)
	}
	c := n.client(t, addr, ClientConfig{MaxRetries: -1})
	const callers, calls, holds = 8, 50, 3
	errs := make(chan error, holds)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			for j := range calls {
				in, out := text{[]byte{byte(i), byte(j)}}, text{}
				if err := c.Call(bg, testProc(tEcho), &in, &out, nil, 0); err != nil || string(out.s) != string(in.s) {
					t.Errorf("%q, %v", out.s, err)
				}
				if i == 0 && j < holds {
					go func() { errs <- c.Call(bg, testProc(tHold), nil, words{0}, nil, 0) }()
				}
			}
		})
	}
	wg.Wait()
	for range holds {
		<-p.entered
	}
	count := words{0}
	if err := c.Call(bg, testProc(tCount), words{0}, count, nil, 0); err != nil || count[0] != holds+1 {
		t.Errorf("%d calls ran, %v", count[0], err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Shutdown(bg) }()
	<-done
	p.release()
	for range holds {
		if err := <-errs; err != nil {
			t.Errorf("a call that waited: %v", err)
		}
	}
	if err := <-ended; err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	if byLoop.Load() == 0 {
		t.Error("the receive loop has run none")
	}
	if n := asked.Load(); n != callers*calls+holds+1 {
		t.Errorf("asked of %d calls whether they are short", n)
	}
}

// Calls that come one by one are lent, and only over connections whose loop can be.
func TestWhoIsLent(t *testing.T) {
	var r rdmaConn
	r.calls.init(100, 1<<20)
	for range lead.AloneMin {
		r.enter()
		r.calls.leave(0)
	}
	if !r.row.Alone() {
		t.Error("not alone after a row of calls")
	}
	r.enter()
	if r.enter(); r.row.Alone() {
		t.Error("alone beside another call")
	}
	for name, via := range map[string]carrier{"TCP": new(tcpConn), "UDP": new(udpSocket), "RDMA, not alone": &r} {
		if via.lend(new(Call)) {
			t.Errorf("%s: lent", name)
		}
	}
}
