// Requests to KDCs that several goroutines wait for.

package krb5

import (
	"context"
	"time"
)

// flightTime bounds a request, which may outlive the call that began it.
const flightTime = time.Minute

// A flight is a request to KDCs. The result is set before done is closed.
type flight struct {
	done   chan struct{}
	ticket ticket
	err    error
}

// wait returns the result, or the context's error.
func (f *flight) wait(ctx context.Context) (ticket, error) {
	select {
	case <-f.done:
		return f.ticket, f.err
	case <-ctx.Done():
		return ticket{}, ctx.Err()
	}
}

// fly returns the running request with a key, or begins one that calls ask on a new goroutine. So
// equal requests are sent once, and no lock is held meanwhile. The request does not end with its
// caller, because others may wait for it; it ends within flightTime. keep gets the ticket under mu,
// before the waiting goroutines. The caller holds mu.
func (c *Credentials) fly(key string, ask func(ctx context.Context) (ticket, error), keep func(ticket)) *flight {
	if f := c.flights[key]; f != nil {
		return f
	}
	f := &flight{done: make(chan struct{})}
	if c.flights == nil {
		c.flights = map[string]*flight{}
	}
	c.flights[key] = f
	go func() {
		defer close(f.done)
		ctx, cancel := context.WithTimeout(context.Background(), flightTime)
		defer cancel()
		f.ticket, f.err = ask(ctx)
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.flights, key)
		if f.err == nil {
			keep(f.ticket)
		}
	}()
	return f
}
