// A receiver that has blocked on its socket is woken by the network poller when it parks there
// again.

package iwarp

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic/internal/rxwait"
	"golang.org/x/sys/unix"
)

// A promptSink calls idle once, when a read ends without input. Input that idle causes then comes
// before the wait.
type promptSink struct {
	roomySink
	keep bool
	idle func()
}

func (s *promptSink) blocksThread() bool { return s.keep }
func (s *promptSink) release(_ int, idle bool) {
	if f := s.idle; idle && f != nil {
		s.idle = nil
		f()
	}
}

// toldOfInput reports whether this process's epoll instance is set to report input on fd.
func toldOfInput(t *testing.T, fd int) (told bool) {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fdinfo")
	if err != nil {
		t.Skip(err)
	}
	n := 0
	for _, e := range all {
		text, _ := os.ReadFile("/proc/self/fdinfo/" + e.Name()) // the file may be gone by now
		for line := range strings.Lines(string(text)) {
			var of int
			var events uint32
			if k, _ := fmt.Sscanf(line, "tfd: %d events: %x", &of, &events); k == 2 && of == fd {
				told = events&unix.EPOLLIN != 0
				n++
			}
		}
	}
	if n != 1 {
		t.Fatalf("%d entries", n)
	}
	return told
}

func TestReadWaitsInPollerAfterSleeps(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(max(2, runtime.GOMAXPROCS(0)))) // half of the processors may be kept
	c, l := pipeLink(t)
	l.wait.spin = rxwait.Spinner{} // the receiver does not spin
	var fd int
	if err := l.rc.Control(func(is uintptr) { fd = int(is) }); err != nil {
		t.Fatalf("Control: %v", err)
	}
	if err := l.c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatalf("SetReadDeadline: %v", err)
	}
	// The input comes after a read that found none, and is read only if an event reports it.
	read := func(keep bool) {
		t.Helper()
		s := &promptSink{keep: keep, idle: func() { _, _ = c.Write([]byte{1}) }}
		for n := 0; n == 0; {
			var err error
			if n, err = l.read(s); err != nil {
				t.Fatalf("read: %v", err)
			}
		}
	}
	for range 3 {
		for toldOfInput(t, fd) {
			read(true)
		}
		read(false)
		if !toldOfInput(t, fd) {
			t.Fatal("the poller is not told of input")
		}
	}
}
