// The decisions that a Device shows for its QPs and their ports.

package roce

import (
	"maps"
	"slices"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
)

// A Device has the decisions of its connections and of a port, including ended ones. Over a bad
// wire requests are buffered out of order, and retransmitted early.
func TestMechanismsOfDevice(t *testing.T) {
	a, b := pair(t, rnic.RC, Options{Wrap: badly(20)}, 1024)
	operations(t, a, b, []int{0, 1, 4097, 65_536, 300_000})
	want := []string{"batch_yield", "early_retransmit", "join_packets", "reorder", "spin"}
	for _, s := range []*side{a, b} {
		if names := slices.Sorted(maps.Keys(s.dev.Mechanisms())); !slices.Equal(names, want) {
			t.Errorf("mechanisms %v, want %v", names, want)
		}
	}
	for _, name := range []string{"early_retransmit", "reorder", "spin"} {
		x, y := a.dev.Mechanisms()[name], b.dev.Mechanisms()[name]
		if x.Won+x.Lost+x.Passed+y.Won+y.Lost+y.Passed == 0 {
			t.Errorf("%s has no decisions, want some", name)
		}
	}
	e := rnic.EndpointOf(a.qp).(*endpoint)
	a.qp.Close()
	ended := a.dev.Mechanisms()
	e.bound.Load().port.yields.Win()
	if got := a.dev.Mechanisms(); !maps.Equal(got, ended) {
		t.Errorf("after the end: %v, want the counts at the end, %v", got, ended)
	}
}

// Two Devices share a port. Only one of them counts the port's decisions, so no decision is counted
// twice.
func TestPortCountsForOneDevice(t *testing.T) {
	at, to := hosts(t)
	a, _ := pairAt(t, rnic.RC, Options{}, 1024, at, to)
	c, _ := pairAt(t, rnic.RC, Options{}, 1024, at, to)
	if _, has := a.dev.Mechanisms()["spin"]; !has {
		t.Error("the first Device has no decisions of its port")
	}
	if _, has := c.dev.Mechanisms()["spin"]; has {
		t.Error("the second Device has the decisions of the first one's port, too")
	}
}
