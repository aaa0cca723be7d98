// Calls that get no worker: they are told to come again, and hold up nothing.

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

// Procedures of the program of a disk, beside NULL.
const (
	dRead   = 1 + iota // hangs
	dWrite             // hangs, idempotent, but not beside a copy of itself
	dOther             // of another disk: does not hang
	dForget            // hangs, and has no answer for those that must wait
	dBuffer            // waits for memory, again and again
	dReply             // does not hang, but its client does not take the reply
)

// A diskProgram has two lanes, and procedures that wait in one of them until they are let go.
type diskProgram struct{ letGo chan struct{} }

// The first word of the results.
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

// askAgain has a call wait for memory that there is none of.
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

// result is the first word of the results in the next end of a call, or how it ended.
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

// inDisk runs a test with a server of a diskProgram, in simulated time.
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

// expect waits for simulated time to pass and then wants those ends, and no more.
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

// Calls beyond the workers of a connection wait, are told to come again when none of them
// moves, and then those that follow are told at once. Others of the connection are served all the
// time. When the disk answers, everything is as before.
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
		c.expect(t, "at first", lineWait-time.Second, resDone)
		c.expect(t, "after the wait", 2*time.Second, resBusy, resBusy)
		start(2, dRead)
		start(1, dOther)
		c.expect(t, "then", 0, resBusy, resBusy, resDone)
		d.letGo <- struct{}{}
		c.expect(t, "one goes on", 0, resDone)
		start(2, dRead) // one runs, one waits
		c.expect(t, "then", lineWait-time.Second)
		for range 5 {
			d.letGo <- struct{}{}
			synctest.Wait()
		}
		c.expect(t, "all go on", 0, resDone, resDone, resDone, resDone, resDone)
	})
}

// A line in which calls end waits for as long as it takes.
func TestSlowCallsAreNotOverdue(t *testing.T) {
	inDisk(t, func(t *testing.T, s *Server, d *diskProgram) {
		c := newTape("10.0.0.1")
		for range 30 {
			c.start(s, callOf(7, dRead, 1))
		}
		for range 30 {
			time.Sleep(lineWait - time.Second)
			d.letGo <- struct{}{}
			c.expect(t, "slowly", 0, resDone)
		}
	})
}

// A connection whose calls have waited in vain stands in line again when the disk answers others:
// on a disk that others keep busy it would else be told to come again for ever.
func TestOverdueLineWaitsAgain(t *testing.T) {
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
		c.expect(t, "while nothing moves", 2*lineWait, resBusy)
		c.start(s, callOf(7, dRead, 1))
		c.expect(t, "then", 0, resBusy)
		d.letGo <- struct{}{}
		synctest.Wait()
		for i := range busy { // the worker that is free is taken at once
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

// Calls of which the procedure has no answer wait on.
func TestOverdueWithoutAnswerWait(t *testing.T) {
	inDisk(t, func(t *testing.T, s *Server, d *diskProgram) {
		c := newTape("10.0.0.1")
		for range 5 {
			c.start(s, callOf(7, dForget, 1))
		}
		c.start(s, callOf(8, dRead, 1))
		c.expect(t, "after the wait", 2*lineWait, resBusy)
		for range 5 {
			d.letGo <- struct{}{}
			synctest.Wait()
		}
		c.expect(t, "all go on", 0, resDone, resDone, resDone, resDone, resDone)
	})
}

// A call that is told to come again has not been done, nor has a copy of it: both are told, and
// nothing of it is kept, so that it is done when it comes once more.
func TestOverdueCopies(t *testing.T) {
	inDisk(t, func(t *testing.T, s *Server, d *diskProgram) {
		one, two := newTape("10.0.0.1"), newTape("10.0.0.1")
		for xid := range uint32(4) {
			one.start(s, callOf(100+xid, dWrite, 1))
		}
		one.start(s, callOf(7, dWrite, 1))
		one.cut()
		two.start(s, callOf(7, dWrite, 1))
		one.expect(t, "the call", 2*lineWait, resBusy)
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

// What waits when its connection ends is dropped at once, though no worker becomes free.
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

// Shutdown returns while procedures hang, and says what they wait for; other connections
// are closed in order.
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

// A deafTape is a carrier of a client that takes a reply only when it is let go.
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

// A stallLog keeps the lines about calls that wait.
type stallLog struct{ lines []string }

func (l *stallLog) take(e machine.LogLine) {
	if strings.HasPrefix(e.Message, "calls wait for ") {
		text, _, _ := strings.Cut(e.Message, ":")
		l.lines = append(l.lines, fmt.Sprint(text, ", ", e.Fields["in-file-system"], ", ", e.Fields["for-clients"]))
	}
}

// TestCauseOfOverdueCalls: the log says what holds the workers that others wait for. For memory,
// too, a call waits because clients do not take replies.
func TestCauseOfOverdueCalls(t *testing.T) {
	const disk, clients = "calls wait for a file system that does not answer", "calls wait for clients that do not read their replies"
	for _, row := range []struct {
		name  string
		procs [4]uint32 // of the calls that run, which are as many as the connection may have
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
				c.expect(t, "after the wait", 2*lineWait, resBusy)
				if want := []string{row.want}; !slices.Equal(l.lines, want) {
					t.Errorf("the log is %q, want %q", l.lines, want)
				}
			})
		})
	}
}
