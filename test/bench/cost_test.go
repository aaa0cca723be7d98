// The cost group: its exports file, its locks and ACLs, and a run of milliseconds.

package main

import (
	"bytes"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
)

// TestCostRules: exportsOf writes as many rules as requested. Of those for the directory, only the
// last admits our address.
func TestCostRules(t *testing.T) {
	f, err := exports.Parse("exports", []byte(exportsOf("/srv", costRules)))
	if err != nil {
		t.Fatalf("Parse: %v", err)
	}
	rules, found := 0, false
	for _, x := range f.Exports {
		rules += len(x.Clients)
		if x.Path == "/srv" {
			m := x.Match(netip.MustParseAddr("127.0.0.1"), nil)
			found = m.Client == &x.Clients[len(x.Clients)-1] && !m.Client.Options.ReadOnly
		}
	}
	if rules != costRules || !found {
		t.Errorf("%d rules; ours lets us write: %t", rules, found)
	}
}

// testCost measures all variants. Only "locks" has locks held in its file.
func testCost(t *testing.T, b *bed) {
	args := []string{"_cost", "2", (costSlices * time.Millisecond).String()}
	for _, v := range costVariants {
		s, release, err := b.costServer(t.Context(), v)
		if err != nil {
			t.Fatalf("%s: %v", v, err)
		}
		defer release()
		args = append(args, s.url("nfsrdma", "dir/file"))
		_, err = holdLocks(t.Context(), s, "another", 1)
		if held := err != nil && strings.Contains(err.Error(), "lock 0: "); held != (v == "locks") {
			t.Errorf("%s: locks are held: %t, %v", v, held, err)
		}
	}
	var out bytes.Buffer
	if err := load(args, nil, &out); err != nil {
		t.Fatalf("load: %v", err)
	}
	if err := b.samples.addCost(out.Bytes()); err != nil {
		t.Fatalf("addCost: %v", err)
	}
	for _, r := range costRows {
		if v := b.samples[r.value]; len(v) != 2*costSlices || slices.Min(v) <= 0 || len(b.samples[r.against]) != 2*costSlices {
			t.Errorf("%s: %v", r.value, v)
		}
	}
	if err := load([]string{"_cost", "1", "1ms", b.ours.url("nfsrdma", "none-"+strconv.Itoa(os.Getpid()))}, nil, &out); err == nil {
		t.Error("what is not there is measured")
	}
	if err := b.samples.addCost([]byte(`{"read": [[1, 2]]}`)); err == nil {
		t.Error("two rates of five variants are taken")
	}
}
