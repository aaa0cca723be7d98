// Calls that are interrupted each time they are made.

package eintr

import (
	"errors"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// blocked returns the signals that this thread blocks, as the kernel shows them.
func blocked(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("/proc/thread-self/status")
	if err != nil {
		t.Fatalf("read the status of the thread: %v", err)
	}
	_, rest, _ := strings.Cut(string(b), "SigBlk:")
	line, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(line)
}

// A call that is always interrupted still ends. From the second time on it is made with signals
// blocked, and then the thread is as before.
func TestAlwaysInterrupted(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := blocked(t)
	var masks []string
	err := Retry(func() error {
		masks = append(masks, blocked(t))
		return unix.EINTR
	})
	if !errors.Is(err, unix.EINTR) {
		t.Errorf("Retry: got %v, want EINTR", err)
	}
	if len(masks) != 1+tries {
		t.Errorf("Retry made %d calls, want %d", len(masks), 1+tries)
	}
	for i, mask := range masks {
		n, err := strconv.ParseUint(mask, 16, 64)
		if err != nil {
			t.Fatalf("the signals of call %d: %v", i, err)
		}
		if held := n>>(unix.SIGURG-1)&1 == 1; held != (i > 0) {
			t.Errorf("call %d: SIGURG is blocked: %v, want %v", i, held, i > 0)
		}
		if n&faults != 0 {
			t.Errorf("call %d: faults are blocked: %s", i, mask)
		}
	}
	if after := blocked(t); after != before {
		t.Errorf("signals blocked afterwards: got %s, want %s", after, before)
	}
}

// RetryN returns the result of the last repetition.
func TestRetryN(t *testing.T) {
	calls := 0
	n, err := RetryN(func() (int, error) {
		if calls++; calls < 3 {
			return -1, unix.EINTR
		}
		return 7, unix.EIO
	})
	if n != 7 || !errors.Is(err, unix.EIO) {
		t.Errorf("got %d, %v, want 7, EIO", n, err)
	}
	if n, err := RetryN(func() (int, error) { return -1, unix.EINTR }); n != -1 || !errors.Is(err, unix.EINTR) {
		t.Errorf("always interrupted: got %d, %v, want -1, EINTR", n, err)
	}
}
