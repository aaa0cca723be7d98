// When the receive loop may block its thread, and when it MUST NOT.

package iwarp

import (
	"io"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/internal/rxwait"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/core"
	"golang.org/x/sys/unix"
)

// The ways in which a message is answered.
const (
	answeredHere  = 'h' // by the handler
	answeredLater = 'l' // by another goroutine, after a while
	answeredNever = 'n'
)

// The loop may block its thread if all received messages have been answered by the time it waits
// again. It does not block while other goroutines still have to answer.
func TestKeepsThreadForWhomItHasAnswered(t *testing.T) {
	byPipe(t, func(k *piped) {
		for range 15 {
			recv(t, k.qp, 1, nil)
		}
		var left string
		k.cq.SetHandler(func() {
			var wc [1]rnic.WC
			for k.cq.Poll(wc[:]) > 0 {
				if wc[0].Op != rnic.OpRecv || wc[0].Status != rnic.WCSuccess {
					continue
				}
				recv(t, k.qp, 1, nil)
				what := left[0]
				left = left[1:]
				switch answer := func() { post(t, k.qp, rnic.SendWR{ID: 2, Op: rnic.OpSend}) }; what {
				case answeredHere:
					answer()
				case answeredLater:
					time.AfterFunc(time.Second, answer)
				}
			}
		})
		go io.Copy(io.Discard, k.c)
		var msn uint32
		for _, c := range []struct {
			messages string
			keep     bool
		}{{"h", true}, {"hhhh", true}, {"l", false}, {"h", true}, {"hhlh", false}, {"n", false}, {"hn", false}, {"h", true}} {
			left = c.messages
			k.say(messages(&msn, len(left)))
			synctest.Wait()
			if keep := streamOf(k.qp).rx.blockThread; keep != c.keep {
				t.Errorf("%q: the loop keeps its thread: %v", c.messages, keep)
			}
			time.Sleep(time.Minute) // by now the late answers have been sent
			synctest.Wait()
		}
	})
}

// TestKeepsNoThreadWhereCallersWait: if callers in this process wait for replies, one of them
// continues after the input and needs a processor. So the receive loop does not block its thread.
func TestKeepsNoThreadWhereCallersWait(t *testing.T) {
	inBubble(t, func(t *testing.T, d *driven) {
		s := streamOf(d.qp)
		s.sends.Add(1)
		synctest.Wait()
		s.rx.came, s.rx.sends = s.rx.in.Messages()-1, s.sends.Load()-1
		if s.answered() {
			t.Error("it keeps its thread")
		}
		if s.waiting = nil; !s.answered() {
			t.Error("it keeps no thread for a peer that it has answered")
		}
	})
}

// A stream counts as one of large transfers for some inputs after a large read or write. Its inputs
// do not shorten the time that other receivers block, and its own receiver does not block.
func TestLargeTransfersLeaveSleepAlone(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(max(2, runtime.GOMAXPROCS(0)))) // half of the processors may be kept
	c, l := pipeLink(t)
	l.wait.spin = rxwait.Spinner{} // the receiver does not spin
	var inputs rxwait.Inputs
	l.wait.block = rxwait.NewBlocker(&inputs)
	input := func() {
		t.Helper()
		if _, err := c.Write([]byte{1}); err != nil {
			t.Fatalf("Write: %v", err)
		}
		if n, err := l.read(&roomySink{}); n != 1 || err != nil {
			t.Fatal(n, err)
		}
	}

	// A second receiver blocks on a pipe with input, so it returns at once. Its Blocker refuses if
	// other receivers have had input.
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		t.Fatalf("Pipe2: %v", err)
	}
	defer unix.Close(pipe[0])
	defer unix.Close(pipe[1])
	if _, err := unix.Write(pipe[1], []byte{1}); err != nil {
		t.Fatalf("Write: %v", err)
	}
	other := rxwait.NewBlocker(&inputs)
	sleeps := func() bool { return other.Block(pipe[0]) }

	until(t, sleeps)
	if input(); sleeps() {
		t.Fatal("it sleeps where another one had input")
	}
	until(t, func() bool { // streams of earlier tests may end meanwhile, which is input
		until(t, sleeps)
		l.wait.large.Store(1)
		input()
		return sleeps()
	})

	if _, err := c.Write([]byte{1}); err != nil {
		t.Fatalf("Write: %v", err)
	}
	own := func() (slept bool) {
		err := l.rc.Control(func(fd uintptr) {
			state, err := l.wait.next(int(fd), true)
			if err != nil {
				t.Errorf("next: %v", err)
			}
			slept = state == waitBlock
		})
		if err != nil {
			t.Fatalf("Control: %v", err)
		}
		return slept
	}
	until(t, own)
	for range 1000 { // more than its backoff ever lets pass
		if l.wait.large.Store(1); own() {
			t.Fatal("it sleeps beside its own large transfers")
		}
	}
}

// TestLargeReadsAndWrites checks the sizes that count as large.
func TestLargeReadsAndWrites(t *testing.T) {
	c, l := pipeLink(t)
	large := make([]byte, largeBytes)
	if n, _, err := l.writev([][]byte{large[:1000]}, core.WriteMode{}); n == 0 || err != nil {
		t.Fatalf("writev: %d bytes, %v", n, err)
	}
	if got := l.wait.large.Load(); got != 0 {
		t.Fatalf("after a small write %d inputs count as large, want 0", got)
	}
	go io.Copy(io.Discard, c)
	until(t, func() bool { // the socket has room for all of it
		n, _, err := l.writev([][]byte{large}, core.WriteMode{})
		if err != nil {
			t.Fatalf("writev: %v", err)
		}
		if is := l.wait.large.Load() == largeInputs; is != (n == len(large)) {
			t.Fatalf("%d bytes are large: %v", n, is)
		}
		return n == len(large)
	})
	l.wait.large.Store(0)
	go c.Write(make([]byte, transferred))
	for left := transferred; left > 0 && l.wait.large.Load() == 0; {
		n, err := l.read(&roomySink{})
		if err != nil {
			t.Fatalf("read: %v", err)
		}
		if left -= n; (n >= largeBytes) != (l.wait.large.Load() == largeInputs) {
			t.Fatalf("%d bytes read, large for %d inputs", n, l.wait.large.Load())
		}
	}
	if l.wait.large.Load() == 0 {
		t.Skip("nothing was read at once that is large")
	}
}
