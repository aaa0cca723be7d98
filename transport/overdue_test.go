// Calls without a worker: their clients must retry, and they block nothing.

package transport

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/test/machine"
)

// Procedures of a disk's program, besides NULL.
const (
	dRead   = 1 + iota // hangs
	dWrite             // hangs; idempotent, but not beside its own copy
	dOther             // on another disk: does not hang
	dForget            // hangs, without an answer for waiting calls
	dBuffer            // waits for memory, repeatedly
	dReply             // does not hang, but its client does not read the reply
)

// A diskProgram has two lanes, and procedures that wait in one of them until released.
type diskProgram struct{ letGo chan struct{} }

// The results' first word.
const (
	resDone = iota
	resBusy
)

func (d *diskProgram) program() *Program {
	run := func(c *Call) error {
		<-d.letGo
		c.Res.Uint32(resDone)
		return nil
	}
	lane := func(n int) func(*Call) int { return func(*Call) int { return n } }
	busy := func(c *Call) { c.Res.Uint32(resBusy) }
	return &Program{Name: "disk", Number: testProg, Version: testVers, Lanes: []string{"hung", "healthy"}, Procs: []Procedure{
		{Name: "NULL", Inline: true, Idempotent: true, Run: func(*Call) error { return nil }},
		dRead:   {Name: "READ", Idempotent: true, Run: run, Lane: lane(0), Busy: busy},
		dWrite:  {Name: "WRITE", Idempotent: true, NoOverlap: true, Run: run, Lane: lane(0), Busy: busy},
		dOther:  {Name: "OTHER", Idempotent: true, Run: func(c *Call) error { c.Res.Uint32(resDone); return nil }, Lane: lane(1), Busy: busy},
		dForget: {Name: "FORGET", Idempotent: true, Run: run, Lane: lane(0)},
		dBuffer: {Name: "BUFFER", Idempotent: true, Run: d.askAgain, Lane: lane(0), Busy: busy},
		dReply:  {Name: "REPLY", Idempotent: true, Run: func(c *Call) error { c.Res.Uint32(resDone); return nil }, Lane: lane(0), Busy: busy},
	}}
}

// askAgain makes a call wait for unavailable memory.
func (d *diskProgram) askAgain(c *Call) error {
	for {
		select {
		case <-d.letGo:
			c.Res.Uint32(resDone)
			return nil
		default:
			c.Buffer(1 << 30)
		}
	}
}

// result returns the first result word of the next call to end, or its kind of end.
func (t *tape) result() any {
	select {
	case e := <-t.ends:
		if e.how != "reply" {
			return e.how
		}
		return int(binary.BigEndian.Uint32(e.reply[24:]))
	default:
		return "none"
	}
}

// inDisk runs a test with a diskProgram's server, in simulated time.
func inDisk(t *testing.T, f func(t *testing.T, s *Server, d *diskProgram)) {
	synctest.Test(t, func(t *testing.T) {
		d := &diskProgram{letGo: make(chan struct{})}
		s := NewServer(ServerConfig{}, d.program())
		f(t, s, d)
		close(d.letGo)
		if err := s.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// expect advances simulated time, then expects exactly those ends.
func (tp *tape) expect(t *testing.T, what string, d time.Duration, want ...any) {
	t.Helper()
	time.Sleep(d)
	synctest.Wait()
	for i, w := range append(want, "none") {
		if got := tp.result(); got != w {
			t.Fatalf("%s: end %d of a call is %v, want %v", what, i, got, w)
		}
	}
}

// Calls beyond a connection's workers wait, are answered with "retry" when none of them moves,
// and later ones at once. The connection's other calls are served all the time. When the disk
// answers, all is normal.
func TestOverdueCallsAreAnswered(t *testing.T) {
	inDisk(t, func(t *testing.T, s *Server, d *diskProgram) {
		c := newTape("10.0.0.1") // has 4 workers in each lane
		start := func(n int, proc uint32) {
			for range n {
				c.start(s, callOf(7, proc, 1))
			}
		}
		start(6, dRead)
		start(1, dOther)
		c.expect(t, "at first", queueWait-time.Second, resDone)
		c.expect(t, "after the wait", 2*time.Second, resBusy, resBusy)
		start(2, dRead)
		start(1, dOther)
		c.expect(t, "then", 0, resBusy, resBusy, resDone)
		d.letGo <- struct{}{}
		c.expect(t, "one goes on", 0, resDone)
		start(2, dRead) // one runs, one waits
		c.expect(t, "then", queueWait-time.Second)
		for range 5 {
			d.letGo <- struct{}{}
			synctest.Wait()
		}
		c.expect(t, "all go on", 0, resDone, resDone, resDone, resDone, resDone)
	})
}

// A queue with ending calls waits without limit.
func TestSlowCallsAreNotOverdue(t *testing.T) {
	inDisk(t, func(t *testing.T, s *Server, d *diskProgram) {
		c := newTape("10.0.0.1")
		for range 30 {
			c.start(s, callOf(7, dRead, 1))
		}
		for range 30 {
			time.Sleep(queueWait - time.Second)
			d.letGo <- struct{}{}
			c.expect(t, "slowly", 0, resDone)
		}
	})
}

// A connection with calls that waited in vain queues again when the disk answers others: on a
// disk kept busy by others its clients would otherwise retry forever.
func TestOverdueQueueWaitsAgain(t *testing.T) {
	inDisk(t, func(t *testing.T, s *Server, d *diskProgram) {
		busy := make([]*tape, 40) // more than their client may have workers for
		for i := range busy {
			busy[i] = newTape("10.0.0.1")
			for range 4 {
				busy[i].start(s, callOf(7, dRead, 1))
			}
		}
		c := newTape("10.0.0.1")
		c.start(s, callOf(7, dRead, 1))
		c.expect(t, "while nothing moves", 2*queueWait, resBusy)
		c.start(s, callOf(7, dRead, 1))
		c.expect(t, "then", 0, resBusy)
		d.letGo <- struct{}{}
		synctest.Wait()
		for i := range busy { // a free worker is taken at once
			busy[i].start(s, callOf(7, dRead, 1))
		}
		c.start(s, callOf(7, dRead, 1))
		c.expect(t, "when the disk has answered one", 0)
		for range 4 * len(busy) {
			select {
			case d.letGo <- struct{}{}:
				synctest.Wait()
			default:
			}
		}
		c.expect(t, "when it has answered all", 0, resDone)
	})
}

// Calls of a procedure without an answer keep waiting.
func TestOverdueWithoutAnswerWait(t *testing.T) {
	inDisk(t, func(t *testing.T, s *Server, d *diskProgram) {
		c := newTape("10.0.0.1")
		for range 5 {
			c.start(s, callOf(7, dForget, 1))
		}
		c.start(s, callOf(8, dRead, 1))
		c.expect(t, "after the wait", 2*queueWait, resBusy)
		for range 5 {
			d.letGo <- struct{}{}
			synctest.Wait()
		}
		c.expect(t, "all go on", 0, resDone, resDone, resDone, resDone, resDone)
	})
}

// A call answered with "retry" has not been executed, nor has its copy: both get that answer, and
// nothing is stored, so that a retry is executed.
func TestOverdueCopies(t *testing.T) {
	inDisk(t, func(t *testing.T, s *Server, d *diskProgram) {
		one, two := newTape("10.0.0.1"), newTape("10.0.0.1")
		for xid := range uint32(4) {
			one.start(s, callOf(100+xid, dWrite, 1))
		}
		one.start(s, callOf(7, dWrite, 1))
		one.cut()
		two.start(s, callOf(7, dWrite, 1))
		one.expect(t, "the call", 2*queueWait, resBusy)
		two.expect(t, "its copy", 0, resBusy)
		two.start(s, callOf(7, dWrite, 1))
		for range 5 {
			d.letGo <- struct{}{}
			synctest.Wait()
		}
		one.expect(t, "those that ran", 0, resDone, resDone, resDone, resDone)
		two.expect(t, "the call once more", 0, resDone)
	})
}

// A waiting call is dropped at its connection's end, even without a free worker.
func TestWaitingCallsOfEndedConnection(t *testing.T) {
	inDisk(t, func(t *testing.T, s *Server, d *diskProgram) {
		c := newTape("10.0.0.1")
		ctx, end := context.WithCancel(context.Background())
		c.ctx = ctx
		for range 6 {
			c.start(s, callOf(7, dRead, 1))
		}
		synctest.Wait()
		end()
		s.pool.withdraw(&c.work)
		c.expect(t, "at the end", 0, "drop", "drop")
	})
}

// Shutdown returns while procedures hang, and names the things that they wait for; other
// connections are closed properly.
func TestShutdownLeavesStuckCalls(t *testing.T) {
	overEach(t, func(t *testing.T, n network) {
		d := &diskProgram{letGo: make(chan struct{})}
		s := NewServer(ServerConfig{}, d.program())
		s.stuckWait = 100 * time.Millisecond
		addr, done, err := n.serve(s, "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		hung, ok := n.client(t, addr, ClientConfig{}), n.client(t, addr, ClientConfig{})
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error)
		go func() { ended <- hung.Call(ctx, testProc(dRead), words{1}, words{0}, nil, 0) }()
		for len(s.pool.running()) == 0 {
			time.Sleep(time.Millisecond)
		}
		for _, c := range []*Client{hung, ok} {
			if err := c.Call(ctx, testProc(dOther), words{1}, words{0}, nil, 0); err != nil {
				t.Errorf("beside a call that hangs: %v", err)
			}
		}
		grace, over := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer over()
		var stuck *StuckError
		if err := s.Shutdown(grace); !errors.As(err, &stuck) || !errors.Is(err, context.DeadlineExceeded) || len(stuck.Lanes) != 1 || stuck.Lanes[0] != "hung" {
			t.Errorf("Shutdown: %v", err)
		}
		if err := <-done; err != ErrClosed {
			t.Errorf("Serve: %v", err)
		}
		cancel()
		<-ended
		close(d.letGo)
		if err := s.Shutdown(context.Background()); err != nil {
			t.Errorf("once it answers: %v", err)
		}
		s.pool.wg.Wait()
	})
}

// A deafTape is a carrier with a client that reads a reply only when released.
type deafTape struct {
	*tape
	letGo chan struct{}
}

func (d *deafTape) reply(c *Call) {
	if c.proc.Name == "REPLY" {
		<-d.letGo
	}
	d.tape.reply(c)
}

// A stallLog keeps the log lines about waiting calls.
type stallLog struct{ lines []string }

func (l *stallLog) take(e machine.LogLine) {
	if strings.HasPrefix(e.Message, "calls wait for ") {
		text, _, _ := strings.Cut(e.Message, ":")
		l.lines = append(l.lines, fmt.Sprint(text, ", ", e.Fields["in-file-system"], ", ", e.Fields["for-clients"]))
	}
}

// TestCauseOfOverdueCalls: the log names what occupies the workers that others wait for. Calls
// that wait for memory also wait for clients to read replies.
func TestCauseOfOverdueCalls(t *testing.T) {
	const disk, clients = "calls wait for a file system that does not answer", "calls wait for clients that do not read their replies"
	for _, row := range []struct {
		name  string
		procs [4]uint32 // of the running calls, as many as the connection may have
		want  string
	}{
		{"file system", [4]uint32{dRead, dRead, dRead, dRead}, disk + ", 4, 0"},
		{"memory", [4]uint32{dBuffer, dBuffer, dBuffer, dBuffer}, clients + ", 0, 4"},
		{"replies", [4]uint32{dReply, dReply, dReply, dReply}, clients + ", 0, 4"},
		{"one in the file system", [4]uint32{dBuffer, dReply, dReply, dRead}, clients + ", 1, 3"},
		{"as many", [4]uint32{dBuffer, dReply, dRead, dRead}, disk + ", 2, 2"},
	} {
		t.Run(row.name, func(t *testing.T) {
			l := &stallLog{}
			machine.CaptureLog(t, l.take)
			inDisk(t, func(t *testing.T, s *Server, d *diskProgram) {
				c := &deafTape{newTape("10.0.0.1"), d.letGo}
				c.via = c
				for _, proc := range append(row.procs[:], dRead) {
					c.start(s, callOf(7, proc, 1))
				}
				c.expect(t, "after the wait", 2*queueWait, resBusy)
				if want := []string{row.want}; !slices.Equal(l.lines, want) {
					t.Errorf("the log is %q, want %q", l.lines, want)
				}
			})
		})
	}
}
