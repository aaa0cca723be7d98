// When a busy time is over.

package nfsserver

import "testing"

func TestQuiet(t *testing.T) {
	q := quiet{}
	at := uint64(0)
	for i, look := range []struct {
		allocated uint64 // bytes since the last sample
		want      bool
	}{
		{quietBytes / 2, false},             // never busy
		{10 * busyBytes, false},             // busy
		{10 * busyBytes, false},             // still busy
		{quietBytes - 1, true},              // the busy time is over
		{quietBytes - 1, false},             // the end is reported only once
		{busyBytes - quietBytes + 1, false}, // busy again
		{0, true}, {0, false}, {100, false},
	} {
		at += look.allocated
		if got := q.became(at); got != look.want {
			t.Errorf("look %d: %v", i, got)
		} else if got {
			q.returned = at
		}
	}
}
