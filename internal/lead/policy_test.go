// Rows of requests, each without a concurrent one.

package lead

import "testing"

// After AloneMin requests in a row Alone reports true, until a request is concurrent with another
// one.
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
