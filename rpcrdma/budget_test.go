// The Budget between connections that keep what they have.

package rpcrdma

import "testing"

// However many connections take all they can get and give nothing back, there
// is as much left for the others as the last of them has got at least.
func TestBudgetShares(t *testing.T) {
	const total, step = 64 << 20, 1 << 16
	b := NewBudget(total)
	for n, want := range []int64{total / 4, total / 4, total / 4, total / 8, total / 16, total / 32} {
		c := &Conn{budget: b}
		r := &Request{c: c}
		for c.reserve(r, step) {
		}
		if c.held != r.octets || c.held != want || b.Free() < want {
			t.Errorf("connection %d holds %d, want %d; %d are free", n, c.held, want, b.Free())
		}
	}
}
