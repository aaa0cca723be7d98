// Requests that several goroutines wait for.

package krb5

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/must"
)

// A fixedSource has a ticket, and perhaps a function that gets the next one.
type fixedSource struct {
	mu     sync.Mutex
	ticket ticket
	next   func(ctx context.Context) (ticket, error)
}

func (s *fixedSource) current(ticket) (ticket, func(context.Context) (ticket, error), error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ticket, s.next, nil
}

// blocked returns credentials whose KDC answers no request, and a channel that receives an element
// for each request.
func blocked(t *testing.T) (*Credentials, *fixedSource, <-chan struct{}) {
	t.Helper()
	asked, end := make(chan struct{}, 16), make(chan struct{})
	t.Cleanup(func() { close(end) })
	conf, tgt := kdcOf(t, func(conn net.Conn) {
		question(conn)
		asked <- struct{}{}
		<-end
	})
	s := &fixedSource{ticket: tgt}
	return &Credentials{conf: conf, source: s, services: map[string]ticket{}}, s, asked
}

// begin requests a ticket on another goroutine, until the test ends.
func begin(t *testing.T, c *Credentials, service name) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = c.ticket(ctx, service)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
}

// TestSlowKDCDelaysNoOtherTicket: while a KDC does not answer, kept tickets can be used and
// forgotten, and the principal is known.
func TestSlowKDCDelaysNoOtherTicket(t *testing.T) {
	c, s, asked := blocked(t)
	other := name{kind: nameServiceHost, parts: []string{"nfs", "other"}, realm: "EXAMPLE.TEST"}
	if _, _, err := c.Principal(t.Context()); err != nil {
		t.Fatalf("Principal: %v", err)
	}
	c.services[other.String()] = ticket{client: s.ticket.client, server: other, end: s.ticket.end}
	begin(t, c, fileService)
	<-asked
	got, err := c.ticket(t.Context(), other)
	must.Succeed(t, err)
	if !got.server.same(other) {
		t.Errorf("got a ticket for %s, want %s", got.server, other)
	}
	c.forget(other)
	if who, _, err := c.Principal(t.Context()); who != "alice@EXAMPLE.TEST" {
		t.Errorf("Principal: got %q, %v, want alice@EXAMPLE.TEST", who, err)
	}
}

// TestWaitForAnothersRequestEnds: a caller that waits for another's request ends with its own
// context.
func TestWaitForAnothersRequestEnds(t *testing.T) {
	c, _, asked := blocked(t)
	begin(t, c, fileService)
	<-asked
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.ticket(ctx, fileService); err == nil {
		t.Error("got a ticket, want an error")
	}
	if len(asked) != 0 {
		t.Errorf("got %d more requests, want none", len(asked))
	}
}

// TestEqualRequestsAreOne: goroutines that need the same ticket share a request. A request
// for another client is separate, because a credential cache can change meanwhile.
func TestEqualRequestsAreOne(t *testing.T) {
	c, s, asked := blocked(t)
	_, one := c.known(s.ticket, fileService)
	<-asked
	if _, again := c.known(s.ticket, fileService); again != one {
		t.Error("the same client and service: got another request, want the same")
	}
	bob := s.ticket
	bob.client = name{kind: 1, parts: []string{"bob"}, realm: "EXAMPLE.TEST"}
	if _, f := c.known(bob, fileService); f == one {
		t.Error("another client: got the same request, want another")
	}
	<-asked
}

// TestTicketOfAnotherClientIsNotUsed: after a change of the cache, the earlier client's tickets are
// not used: neither a kept one nor a request's late result.
func TestTicketOfAnotherClientIsNotUsed(t *testing.T) {
	c, s, _ := blocked(t)
	alice, bob := s.ticket, s.ticket
	bob.client, bob.encoded = name{kind: 1, parts: []string{"bob"}, realm: "EXAMPLE.TEST"}, []byte("bob's")
	_, _, err := c.Principal(t.Context())
	must.Succeed(t, err)
	late := make(chan ticket)
	s.next = func(context.Context) (ticket, error) { return <-late, nil }
	_, f, err := c.look() // starts the request for alice's next ticket
	must.Succeed(t, err)
	if f != nil {
		t.Error("a good ticket: got a request to wait for, want none")
	}
	s.ticket, s.next = bob, nil
	if who, _, err := c.Principal(t.Context()); who != "bob@EXAMPLE.TEST" {
		t.Errorf("got %q, %v, want bob@EXAMPLE.TEST", who, err)
	}
	c.mu.Lock()
	running := c.flights[""]
	c.mu.Unlock()
	late <- alice
	<-running.done
	c.mu.Lock()
	defer c.mu.Unlock()
	if got := c.granting.client; !got.same(bob.client) {
		t.Errorf("after the late ticket: got %s, want bob@EXAMPLE.TEST", got)
	}
}

// TestRenewalDelaysNoCall: a ticket near its end is used while the next one is awaited, and after
// that the next one is used.
func TestRenewalDelaysNoCall(t *testing.T) {
	c, s, _ := blocked(t)
	next := make(chan ticket)
	s.next = func(ctx context.Context) (ticket, error) {
		select {
		case got := <-next:
			return got, nil
		case <-ctx.Done():
			return ticket{}, ctx.Err()
		}
	}
	for range 3 {
		if _, end, err := c.Principal(t.Context()); err != nil || !end.Equal(s.ticket.end) {
			t.Errorf("during the renewal: got the end %v, %v, want %v", end, err, s.ticket.end)
		}
	}
	renewed := s.ticket
	renewed.end, renewed.encoded = s.ticket.end.Add(time.Hour), []byte("renewed")
	c.mu.Lock()
	f := c.flights[""]
	c.mu.Unlock()
	next <- renewed
	<-f.done
	c.mu.Lock()
	defer c.mu.Unlock()
	if got := c.granting.end; !got.Equal(renewed.end) {
		t.Errorf("after the renewal: got the end %v, want %v", got, renewed.end)
	}
}

// TestFailedRequestIsSentAgain: all waiting goroutines get the error, and later ones send a new
// request.
func TestFailedRequestIsSentAgain(t *testing.T) {
	c, s, _ := blocked(t)
	failure := errors.New("refused")
	tries := 0
	s.ticket, s.next = ticket{}, func(context.Context) (ticket, error) {
		tries++
		return ticket{}, failure
	}
	for want := range 2 {
		if _, _, err := c.Principal(t.Context()); err == nil || err.Error() == "" {
			t.Errorf("got %v, want an error", err)
		}
		if tries != want+1 {
			t.Errorf("got %d tries, want %d", tries, want+1)
		}
	}
}
