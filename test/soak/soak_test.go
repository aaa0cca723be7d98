// The soak in short: seconds of load, and bounds that hold on a busy machine.

package main

import (
	"context"
	"strings"
	"testing"
	"time"
)

// shortLoad is the duration of the short form's load. Each worker does its operation at least once.
const shortLoad = 4 * time.Second

// restless are the bounds for a server that has had no time to rest: its workers stay for half a
// minute, and memory is given back after several idle checks.
var restless = bounds{resident: 128 << 20, heap: 64 << 20, goroutines: 300, threads: 200, descriptors: 16}

// TestSoak: all hashes are right, and after a while there is no connection left, no byte in flight,
// and few descriptors.
func TestSoak(t *testing.T) {
	s, err := startServer(t.TempDir())
	if err != nil {
		t.Fatalf("startServer: %v", err)
	}
	defer s.stop()
	before, err := s.figures()
	if err != nil {
		t.Fatalf("figures: %v", err)
	}
	over, cancel := context.WithTimeout(context.Background(), shortLoad)
	defer cancel()
	l := &load{server: s, over: over}
	if err := l.run(); err != nil {
		t.Fatalf("%v\nThe server wrote:\n%s", err, s.log())
	}
	if did := l.done.read(); did.copied == 0 || did.malformed == 0 || did.mounted == 0 || did.changed == 0 {
		t.Errorf("not everything was done: %v", did)
	}
	var rested figures
	err = restless.check(before, figures{conns: 1})
	for end := time.Now().Add(3 * time.Minute); err != nil && time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if rested, err = s.figures(); err != nil {
			t.Fatalf("figures: %v", err)
		}
		err = restless.check(before, rested)
	}
	if err != nil {
		t.Errorf("%v\n%s", err, table(before, rested, rested))
	}
}

// TestCheck: each figure above its bound is named, and none at its bound.
func TestCheck(t *testing.T) {
	before := figures{resident: 1 << 20, descriptors: 11}
	b := bounds{resident: 1 << 20, descriptors: 1}
	if err := b.check(before, figures{resident: 2 << 20, descriptors: 12}); err != nil {
		t.Errorf("check: %v", err)
	}
	for _, x := range allFigures {
		rested := figures{resident: 2 << 20, descriptors: 12}
		*x.of(&rested)++
		if x.name != "resident memory, MiB" && x.name != "descriptors" {
			*x.of(&rested) = 1
		}
		if err := b.check(before, rested); err == nil || !strings.HasPrefix(err.Error(), x.name) {
			t.Errorf("%s: %v", x.name, err)
		}
	}
}
