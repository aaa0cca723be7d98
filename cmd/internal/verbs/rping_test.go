// rping between two of our ends, and against peers that make mistakes.

package verbs

import (
	"context"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/cmd/internal/verbs/exchange"
	"github.com/nfsrdma/nfsrdma/rnic"
)

func TestRping(t *testing.T) {
	for _, size := range []int{0, 16, 1000, rpingMax} {
		s, c, err, err2 := both(t, Options{Size: size, Iterations: 5}, Rping, func(o *Options) { o.Size, o.Iterations = 0, 0 }, nil)
		if err != nil || err2 != nil {
			t.Fatalf("%d bytes: server: %v; client: %v", size, err, err2)
		}
		if s.Iterations != 5 || c.Iterations != 5 || s.Role != "server" {
			t.Errorf("%s: %d and %d iterations, want server: 5 and 5", s.Role, s.Iterations, c.Iterations)
		}
		if s.Size != c.Size || size != 0 && c.Size != size {
			t.Errorf("sizes %d and %d, want %d", s.Size, c.Size, size)
		}
	}
	s, c, err, err2 := both(t, Options{Iterations: 3}, Rping, nil, nil)
	if err != nil || err2 != nil || s.Iterations != 3 || c.Iterations != 3 {
		t.Errorf("a server that counts as well: %+v, %+v, %v, %v", s, c, err, err2)
	}
}

// TestRpingText: the message begins with its number and ends with NUL, at any size.
func TestRpingText(t *testing.T) {
	b := make([]byte, 30)
	fill(b, 2)
	if string(b) != "rdma-ping-2: CDEFGHIJKLMNOPQR\x00" {
		t.Errorf("%q", b)
	}
	fill(b, 57)
	if string(b) != "rdma-ping-57: zABCDEFGHIJKLMN\x00" {
		t.Errorf("%q", b)
	}
}

// rpingPeer connects as an rping client and then calls f.
func rpingPeer(f func(*rping) error) func(context.Context, Options) (*PingpongReport, error) {
	return func(ctx context.Context, o Options) (*PingpongReport, error) {
		if o.server() {
			return Rping(ctx, o)
		}
		o.Size, o.Service = 64, rnic.RC
		e, err := newEnd(ctx, &o, rpingDepth, rpingDepth)
		if err != nil {
			return nil, err
		}
		defer e.close()
		p := &rping{end: e}
		if err = p.prepare(); err == nil {
			err = p.reach(ctx, rnic.ConnParams{IRD: 1, ORD: 1})
		}
		if err == nil {
			_ = f(p) // the server's error counts
		}
		return nil, err
	}
}

// TestRpingOfStrangers: a server reads and writes only within its buffer and the client's memory.
func TestRpingOfStrangers(t *testing.T) {
	say := func(r exchange.Region) func(*rping) error {
		return func(p *rping) error {
			if r.RKey == 0 {
				r.RKey, r.Addr = uint32(p.mr.STag()), p.mr.Base()
			}
			if err := p.work(rnic.SendWR{Op: rnic.OpSend, SGL: [][]byte{exchange.AppendRegion(nil, r)}}); err != nil {
				return err
			}
			_, err := p.receiveRegion()
			return err
		}
	}
	for want, f := range map[string]func(*rping) error{
		"messages of 1000000 bytes: 1 to 65536": say(exchange.Region{Size: 1000000}),
		"messages of 0 bytes":                   say(exchange.Region{Size: 0}),
		"RDMA Read":                             say(exchange.Region{Size: 64, RKey: 0x12345678, Addr: 1}),
		"a message of 3 bytes: is it rping?": func(p *rping) error {
			return p.work(rnic.SendWR{Op: rnic.OpSend, SGL: [][]byte{{1, 2, 3}}})
		},
		"after 0 messages": func(*rping) error { return nil },
	} {
		_, _, err, _ := both(t, Options{}, rpingPeer(f), nil, nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestRpingChecksOptions(t *testing.T) {
	for want, o := range map[string]Options{"--port 0": {}, "--size 5: 16 to": {Port: 1, Size: 5}, "--size 70000": {Port: 1, Size: 70000}} {
		if _, err := Rping(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", o, err, want)
		}
	}
}
