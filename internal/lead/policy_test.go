// Which requests are the leader's.

package lead

import "testing"

// Requests are taken to be alone after a number of them in a row, until another one is beside.
func TestRow(t *testing.T) {
	var r Row
	for range 2 {
		for i := range AloneMin {
			if r.Alone() {
				t.Fatalf("alone after %d requests, want %d", i, AloneMin)
			}
			r.Count(false)
		}
		for range 2 * AloneMin {
			if r.Count(false); !r.Alone() {
				t.Fatal("not alone after a long row")
			}
		}
		if got := r.n.Load(); got != AloneMin {
			t.Errorf("has counted %d requests, want no more than %d", got, AloneMin)
		}
		r.Count(true)
		r.Count(true)
	}
}
