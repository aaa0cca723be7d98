// Tests for the sockets group, with both ends in one process.

package main

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/must"
)

// TestSockets: the client measures a figure for each row, and no other.
func TestSockets(t *testing.T) {
	m, err := serveSockets("127.0.0.1")
	must.Succeed(t, err)
	figures, err := m.measure(time.Millisecond)
	must.Succeed(t, err)
	var want []string
	for _, r := range socketRows {
		want = append(want, strings.TrimPrefix(r.value, "sockets/"))
	}
	slices.Sort(want)
	if got := slices.Sorted(maps.Keys(figures)); !slices.Equal(got, want) {
		t.Errorf("figures of %q, want %q", got, want)
	}
	for k, v := range figures {
		if v <= 0 {
			t.Errorf("%s: %v", k, v)
		}
	}
}
