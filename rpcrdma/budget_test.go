// The Budget between connections that keep what they have.

package rpcrdma

import "testing"

// Connections that take all they can get, and give nothing back, leave much more
// than they have for the next one; who is alone gets half.
func TestBudgetShares(t *testing.T) {
	const total, step = 256 << 20, 1 << 16
	b := NewBudget(total)
	for n := range 20 {
		c := &Conn{budget: b}
		r := &Request{c: c}
		free := b.Free()
		for c.reserve(r, step) {
		}
		want := free / (greedy + 1)
		if n == 0 {
			want = total / 2
		}
		if c.held != r.octets || c.held > want || c.held < want-step {
			t.Errorf("connection %d holds %d of the %d that were free", n, c.held, free)
		}
	}
	if b.Free() < 32<<20 {
		t.Errorf("%d are free", b.Free())
	}
}

// The largest request is met when nobody else has anything, and not when it would leave less than itself.
func TestBudgetLargest(t *testing.T) {
	b := NewBudget(1 << 20)
	if !b.take(0, 1<<20) || b.take(0, 1) {
		t.Error("all of it")
	}
	b.give(1 << 20)
	if !b.take(0, 1) || b.take(0, 1<<19) || !b.take(0, 1<<18) {
		t.Error("beside another")
	}
}
