// A well-behaved client that continues to work while the server is attacked.

package rig

import (
	"bytes"
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// A Bystander writes and reads back repeatedly, and compares.
type Bystander struct {
	t      testing.TB
	rounds atomic.Int64
	failed chan struct{} // closed when a round has failed
	err    error
}

// Bystand starts a Bystander over one transport; the end of the test stops it.
func (s *Server) Bystand(t testing.TB, tr nfsclient.Transport) *Bystander {
	t.Helper()
	fs := s.Mount(t, nfsclient.Options{Transport: tr})
	b := &Bystander{t: t, failed: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	n, err := fs.Client().Create(ctx, fs.Root(), fmt.Sprintf("bystander-%s-%d", tr, serial.Add(1)), nfs3.Unchecked, nfs3.Sattr{}, nfs3.Verf{})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if err := b.round(ctx, fs.Client(), n.FH); err != nil && ctx.Err() == nil {
				b.err = err
				close(b.failed)
				return
			}
			b.rounds.Add(1)
			time.Sleep(time.Millisecond)
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		if b.err != nil {
			t.Errorf("the client beside: %v", b.err)
		}
	})
	return b
}

var serial atomic.Int64

// round does one small and one large WRITE and READ.
func (b *Bystander) round(ctx context.Context, c *nfsclient.Client, fh nfs3.FH) error {
	turn := byte(b.rounds.Load())
	for _, n := range []int{500, 100_000} {
		want := bytes.Repeat([]byte{turn + byte(n)}, n)
		if _, err := c.Write(ctx, fh, want, uint64(turn), nfs3.Unstable); err != nil {
			return err
		}
		got := make([]byte, n)
		if m, _, err := c.Read(ctx, fh, got, uint64(turn)); err != nil || m != n {
			return fmt.Errorf("read %d of %d bytes, %w", m, n, err)
		}
		if !bytes.Equal(got, want) {
			return fmt.Errorf("read back other bytes than written, %d of them", n)
		}
	}
	return nil
}

// Works waits until the Bystander has done two more rounds, at least one begun after the call. It
// fails the test after a failed round, or if no round ends.
func (b *Bystander) Works() {
	b.t.Helper()
	give := time.After(2 * time.Minute)
	for want := b.rounds.Load() + 2; b.rounds.Load() < want; {
		select {
		case <-b.failed:
			b.t.Fatalf("the client beside: %v", b.err)
		case <-give:
			b.t.Fatal("the client beside makes no progress")
		case <-time.After(200 * time.Microsecond):
		}
	}
}

// Attacked starts a server with bystanders over RDMA and TCP; works waits until each has made
// progress. At the end of the test nothing may leak.
func Attacked(t testing.TB, cfg Config) (s *Server, works func()) {
	t.Helper()
	NoLeaks(t)
	s = Start(t, cfg)
	rdma, tcp := s.Bystand(t, nfsclient.RDMA), s.Bystand(t, nfsclient.TCP)
	return s, func() {
		t.Helper()
		rdma.Works()
		tcp.Works()
	}
}
