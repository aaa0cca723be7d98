// The drawings of the two state machines, compared with the whole suite.

package rpcrdma

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
)

// arrows counts one state machine's transitions while the tests run.
type arrows[S comparable] struct {
	mu   sync.Mutex
	seen map[[2]S]int
}

// watch returns a callback for transitions: it panics at one that is not drawn.
func (a *arrows[S]) watch(drawn func(S) []S) func(from, to S) {
	a.seen = map[[2]S]int{}
	return func(from, to S) {
		if !slices.Contains(drawn(from), to) {
			panic(fmt.Sprintf("%v cannot become %v", from, to))
		}
		a.mu.Lock()
		a.seen[[2]S{from, to}]++
		a.mu.Unlock()
	}
}

var (
	callArrows    arrows[callState]
	requestArrows arrows[requestState]
)

func TestMain(m *testing.M) {
	watchCall := callArrows.watch(func(s callState) []callState { return callNext[s] })
	onCallState = func(k *Call, to callState) {
		watchCall(k.state, to)
		if to == callIdle && k.state >= callAnswered && k.recv != nil {
			panic("a credit is given before the receive for its reply is posted") // RFC 8166 §3.3.1 [R8166-028]
		}
	}
	onRequestState = requestArrows.watch(func(s requestState) []requestState { return requestNext[s] })
	code := m.Run()
	if f := flag.Lookup("test.run"); code == 0 && (f == nil || f.Value.String() == "") && flag.Lookup("test.fuzz").Value.String() == "" {
		code = unseen()
	}
	os.Exit(code)
}

// unseen returns 1 if the drawings have an arrow that no test has taken: it does not exist, or
// lacks a test.
func unseen() (code int) {
	callArrows.mu.Lock()
	defer callArrows.mu.Unlock()
	requestArrows.mu.Lock()
	defer requestArrows.mu.Unlock()
	for from, next := range callNext {
		for _, to := range next {
			if callArrows.seen[[2]callState{callState(from), to}] == 0 {
				fmt.Printf("no test has taken a call from %v to %v\n", callState(from), to)
				code = 1
			}
		}
	}
	for from, next := range requestNext {
		for _, to := range next {
			if requestArrows.seen[[2]requestState{requestState(from), to}] == 0 {
				fmt.Printf("no test has taken a Request from %v to %v\n", requestState(from), to)
				code = 1
			}
		}
	}
	return code
}

func TestStateStrings(t *testing.T) {
	for s := range callStates + 2 {
		if s.String() == "" {
			t.Errorf("%d has no name", s)
		}
		if want := fmt.Sprintf("callState(%d)", s); s >= callStates && s.String() != want {
			t.Errorf("%q, want %q", s, want)
		}
	}
	for s := range requestStates + 2 {
		if s.String() == "" {
			t.Errorf("%d has no name", s)
		}
		if want := fmt.Sprintf("requestState(%d)", s); s >= requestStates && s.String() != want {
			t.Errorf("%q, want %q", s, want)
		}
	}
}
