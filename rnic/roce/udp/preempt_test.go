//go:build linux

// Policies of threads: what a stream of packets changes, and that nothing of it stays.

package udp

import (
	"errors"
	"maps"
	"net"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A bench is threads of a process, by number, and their policies.
type bench struct {
	runs  int // the thread that asks
	is    map[int]int
	deny  error
	asked int // changes

	listed func() // after a list of the threads was made
}

func (b *bench) current() int { return b.runs }

func (b *bench) policy(thread int) (int, error) { return b.is[thread], nil }
func (b *bench) setPolicy(thread, policy int) error {
	if b.asked++; b.deny != nil {
		return b.deny
	}
	b.is[thread] = policy
	return nil
}

func (b *bench) all() (threads []int) {
	for id := range b.is {
		threads = append(threads, id)
	}
	if b.listed != nil {
		b.listed()
	}
	return threads
}

func (b *bench) want(t *testing.T, is map[int]int) {
	t.Helper()
	if !maps.Equal(b.is, is) {
		t.Fatalf("policies of the threads are %v, want %v", b.is, is)
	}
}

// A moving is a stream, and the time.
type moving struct {
	*stream
	now time.Time
}

func newMoving(p *policies) *moving {
	m := &moving{newStream(p), time.Unix(1, 0)}
	m.came(m.now)
	return m
}

// move moves bytes in some time, of which packets come at the end, and reports whether a stream has
// begun.
func (m *moving) move(bytes int64, took time.Duration) (began bool) {
	m.moved.Add(bytes)
	m.now = m.now.Add(took)
	return m.came(m.now)
}

// Threads on which the receive loop runs do not preempt while there are many bytes, and a while
// after; then all are what they were, those too that one of them has started. Few bytes change
// nothing, and a change is asked for once.
func TestStreamsDoNotPreempt(t *testing.T) {
	b := &bench{runs: 1, is: map[int]int{1: schedOther, 2: schedOther, 3: schedOther, 4: 5}}
	m := newMoving(&policies{scheduler: b})
	for range 1000 {
		m.move(60<<10, streamTime)
	}
	m.move(10*streamBytes, streamTime/2) // too soon to tell
	m.move(0, 20*streamTime)
	if b.asked != 0 {
		t.Fatalf("%d changes for few bytes", b.asked)
	}
	if !m.move(streamBytes, streamTime) || m.move(streamBytes, streamTime) {
		t.Errorf("the stream has not begun, or twice")
	}
	b.want(t, map[int]int{1: schedBatch, 2: schedOther, 3: schedOther, 4: 5})
	b.runs = 2
	m.move(streamBytes, streamTime)
	m.move(0, streamRest-1)
	b.is[9] = schedBatch // begun by thread 1 or 2
	b.want(t, map[int]int{1: schedBatch, 2: schedBatch, 3: schedOther, 4: 5, 9: schedBatch})
	if b.asked != 2 {
		t.Errorf("%d changes, want 2", b.asked)
	}
	m.move(1000, 2*streamTime)
	b.want(t, map[int]int{1: schedOther, 2: schedOther, 3: schedOther, 4: 5, 9: schedOther})
	m.move(streamBytes, streamTime) // a stream again
	b.want(t, map[int]int{1: schedOther, 2: schedBatch, 3: schedOther, 4: 5, 9: schedOther})
}

// A policy that the user of the process has chosen stays, whatever it is.
func TestChosenPolicyStays(t *testing.T) {
	for _, policy := range []int{1, 2, schedBatch, 5} {
		b := &bench{runs: 1, is: map[int]int{1: policy, 2: policy}}
		m := newMoving(&policies{scheduler: b})
		for _, bytes := range []int64{streamBytes, streamBytes, 0} {
			m.move(bytes, streamTime)
		}
		m.move(0, 2*streamRest)
		m.end()
		if b.asked != 0 {
			t.Errorf("policy %d: %d changes", policy, b.asked)
		}
	}
}

// Where a change is forbidden it is not asked for again, and what was changed before is as it was.
func TestForbiddenPolicy(t *testing.T) {
	b := &bench{runs: 1, is: map[int]int{1: schedOther, 2: schedOther}}
	m := newMoving(&policies{scheduler: b})
	b.deny = unix.EPERM
	for range 3 {
		m.move(streamBytes, streamTime)
	}
	if b.asked != 1 {
		t.Errorf("asked for %d times", b.asked)
	}
	b.want(t, map[int]int{1: schedOther, 2: schedOther})
}

// Of two streams of a process the last one to end ends it for all threads.
func TestTwoStreams(t *testing.T) {
	b := &bench{runs: 1, is: map[int]int{1: schedOther, 2: schedOther}}
	p := &policies{scheduler: b}
	m, n := newMoving(p), newMoving(p)
	m.move(streamBytes, streamTime)
	b.runs = 2
	n.move(streamBytes, streamTime)
	m.end()
	m.end() // is once
	b.want(t, map[int]int{1: schedBatch, 2: schedBatch})
	n.end()
	b.want(t, map[int]int{1: schedOther, 2: schedOther})
}

// A thread that starts while the others are gone over, by one whose turn has not come, is gone over
// as well.
func TestThreadsStartedMeanwhile(t *testing.T) {
	b := &bench{runs: 1, is: map[int]int{1: schedOther}}
	m := newMoving(&policies{scheduler: b})
	m.move(streamBytes, streamTime)
	b.listed = func() {
		if id := len(b.is) + 1; id <= 4 {
			b.is[id] = schedBatch
		}
	}
	m.end()
	b.want(t, map[int]int{1: schedOther, 2: schedOther, 3: schedOther, 4: schedOther})
}

// The kernel does all of this for a thread without a privilege, and its nice value stays.
func TestPoliciesOfTheKernel(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	k := new(kernel)
	id := k.current()
	if now, err := k.policy(id); err != nil || now != schedOther {
		t.Skipf("the tests run with a policy of their own: %d, %v", now, err)
	}
	nice, err := unix.Getpriority(unix.PRIO_PROCESS, id)
	if err != nil {
		t.Fatal(err)
	}
	m := newMoving(&policies{scheduler: k})
	m.move(streamBytes, streamTime)
	if now, err := k.policy(id); m.threads.never.Load() {
		t.Skip("a filter of system calls forbids it")
	} else if err != nil || now != schedBatch {
		t.Errorf("policy %d in a stream: %v", now, err)
	}
	m.end()
	if now, err := k.policy(id); err != nil || now != schedOther {
		t.Errorf("policy %d after it: %v", now, err)
	}
	if now, err := unix.Getpriority(unix.PRIO_PROCESS, id); err != nil || now != nice {
		t.Errorf("priority %d, was %d: %v", now, nice, err)
	}
}

// A socket counts the bytes that it moves, and its end is that of the stream.
func TestBytesAreCounted(t *testing.T) {
	for _, joined := range []bool{true, false} {
		a, b := open(t, "127.0.0.1:0"), open(t, "127.0.0.1:0")
		table := &bench{runs: 1, is: map[int]int{1: schedOther}}
		b.moves = newStream(&policies{scheduler: table})
		if !joined {
			a.joins = false
		}
		out, want := NewBatch(a, 12), int64(0)
		for range 2 {
			for i := range 12 {
				n := 4096
				if i == 11 {
					n = 100
				}
				add(t, out, n, b.Local())
				want += int64(out.iovs[i].Len)
			}
			if n, _, err := a.Send(out); n != 12 || err != nil {
				t.Fatalf("%d, %v", n, err)
			}
			gather(t, b, 12, a.Local())
		}
		if out, in := a.moves.moved.Load(), b.moves.moved.Load(); out != want || in != want {
			t.Errorf("%d bytes out and %d in, want %d", out, in, want)
		}
		b.moves.batch()
		b.Close()
		if err := b.Receive(NewInbound(b, 1)); !errors.Is(err, net.ErrClosed) || table.is[1] != schedOther || table.asked != 2 {
			t.Errorf("%v; the thread has policy %d after %d changes", err, table.is[1], table.asked)
		}
	}
}

// A stream ends by its socket being idle, too, for nobody may ever send to it again; one whose
// socket sends does not.
func TestStreamEndsIdle(t *testing.T) {
	b := &bench{runs: 1, is: map[int]int{1: schedOther}}
	m := newMoving(&policies{scheduler: b})
	m.move(streamBytes, streamTime)
	for range 3 {
		m.moved.Add(streamRest.Milliseconds() * streamBytes)
		if m.now = m.now.Add(streamRest); !m.goesOn(m.now) {
			t.Error("the stream has ended while there were many bytes")
		}
	}
	b.want(t, map[int]int{1: schedBatch})
	if m.goesOn(m.now.Add(streamRest)) {
		t.Error("the stream goes on without bytes")
	}
	b.want(t, map[int]int{1: schedOther})
	if m.now = m.now.Add(2 * streamRest); m.goesOn(m.now) || b.asked != 2 {
		t.Errorf("a stream without a packet, or %d changes, want 2", b.asked)
	}
}

// A socket ends its stream though nothing comes, and receives as ever after that.
func TestIdleSocketEndsItsStream(t *testing.T) {
	a, s := open(t, "127.0.0.1:0"), open(t, "127.0.0.1:0")
	table := &bench{runs: 1, is: map[int]int{1: schedOther}}
	listed := make(chan bool, 100)
	table.listed = func() { listed <- true }
	s.moves = newStream(&policies{scheduler: table})
	s.moves.count(time.Now().Add(-streamTime))
	s.moves.moved.Add(1 << 50)
	out, in := NewBatch(a, 1), NewInbound(s, 1)
	pass := func() {
		t.Helper()
		add(t, out, 100, s.Local())
		if _, _, err := a.Send(out); err != nil {
			t.Fatal(err)
		}
		if err := s.Receive(in); err != nil {
			t.Fatal(err)
		}
	}
	pass()
	<-listed
	<-listed // again, when they have their policy
	pass()
	table.want(t, map[int]int{1: schedOther})
	if table.asked != 2 {
		t.Errorf("%d changes, want 2", table.asked)
	}
}

// Streams that begin and end, as they do all the time where there is load, allocate nothing.
func TestStreamsAllocateNothing(t *testing.T) {
	m := newMoving(&policies{scheduler: new(kernel)})
	if m.threads.never.Load() {
		t.Skip("the tests run with a policy of their own")
	}
	cycle := func() {
		m.move(streamBytes, streamTime)
		m.goesOn(m.now.Add(streamRest))
		m.now = m.now.Add(streamRest)
	}
	cycle()
	if n := testing.AllocsPerRun(10, cycle); n != 0 {
		t.Errorf("%v allocations for each stream", n)
	}
}

// The threads of the process are all listed, however many they are.
func TestThreadsOfTheProcess(t *testing.T) {
	end := make(chan struct{})
	defer close(end)
	want := make(map[int]bool)
	ids := make(chan int)
	for range 100 {
		go func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			ids <- unix.Gettid()
			<-end
		}()
	}
	for range 100 {
		want[<-ids] = true
	}
	got := new(kernel).all()
	for _, id := range got {
		delete(want, id)
	}
	if len(want) != 0 {
		t.Errorf("%d of 100 threads are not among the %d that are listed", len(want), len(got))
	}
}
