// What counts as a large call.

package transport

import (
	"runtime"
	"testing"
	"time"
)

// Client and server of this process both count each call, and each that moves much, whichever way,
// as a large one too.
func TestProcessCalls(t *testing.T) {
	overEach(t, func(t *testing.T, n network) {
		_, _, addr := n.start(t, ServerConfig{})
		c := n.client(t, addr, ClientConfig{Cred: SysCred()})
		for _, tc := range []struct {
			name         string
			in, out      int
			calls, large uint64 // of both sides
		}{
			{"small", 100, 100, 2, 0},
			{"almost large", largeCall - 1<<10, largeCall - 1<<10, 2, 0},
			{"large reply", 0, largeCall, 2, 2},
			{"large call", largeCall, 0, 2, 2},
		} {
			calls, large := ProcessCalls()
			var r readRes
			var err error
			if tc.in <= tc.out {
				err = c.Call(bg, testProc(tRead), words{uint32(tc.out)}, &r, make([]byte, tc.out), 0)
			} else {
				err = c.Call(bg, testProc(tWrite), &writeArgs{make([]byte, tc.in)}, words{0, 0}, nil, 0)
			}
			if err != nil {
				t.Fatal(err)
			}
			nowCalls, nowLarge := ProcessCalls()
			for start := time.Now(); nowCalls-calls < tc.calls || nowLarge-large < tc.large; nowCalls, nowLarge = ProcessCalls() {
				if time.Since(start) > time.Minute { // a reply is counted when it has left
					break
				}
				runtime.Gosched()
			}
			if nowCalls-calls != tc.calls || nowLarge-large != tc.large {
				t.Errorf("%s: %d calls, %d of them large; want %d and %d", tc.name, nowCalls-calls, nowLarge-large, tc.calls, tc.large)
			}
		}
	})
}
