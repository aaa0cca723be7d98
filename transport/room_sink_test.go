// Results without room: the same error over TCP and RDMA, and the connection survives.

package transport

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/nfsrdma/nfsrdma/xdr"
)

// mirror returns its argument: both are items that may travel as chunks.
var mirror = &Program{Name: "MIRROR", Number: testProg, Version: testVers, Procs: []Procedure{
	0: {Name: "NULL", Inline: true, Idempotent: true, Run: func(*Call) error { return nil }},
	1: {Name: "MIRROR", Idempotent: true, ArgItem: true, Run: func(c *Call) error {
		in := c.Args.Item(1 << 20)
		if err := c.ArgsErr(); err != nil {
			return err
		}
		out := c.Buffer(len(in))
		if out == nil {
			return ErrSystem
		}
		copy(out, in)
		c.Res.Item(out)
		return nil
	}},
}}

type item struct{ data []byte }

func (i *item) EncodeXDR(e *xdr.Encoder) { e.Item(i.data) }
func (i *item) DecodeXDR(d *xdr.Decoder) { i.data = d.Item(1 << 20) }

// TestResultsWithoutRoom: results without room fail alike over each network, for sizes that travel
// inline, by Write chunk and by Reply chunk. The sink is missing, empty, or too short by one byte
// or by all but one.
func TestResultsWithoutRoom(t *testing.T) {
	overEach(t, func(t *testing.T, n network) {
		s := NewServer(ServerConfig{}, mirror)
		addr, done, err := n.serve(s, "127.0.0.1:0")
		if err != nil {
			t.Fatalf("serve: %v", err)
		}
		defer shutdown(t, s, done)
		c := n.client(t, addr, ClientConfig{})
		proc := &Proc{Prog: testProg, Vers: testVers, Proc: 1, Name: "MIRROR", MaxReply: 4}
		first := c.conn
		for _, size := range []int{9, 3000, 5000, 300_000} {
			in := item{make([]byte, size)}
			fill(in.data)
			for name, sink := range map[string][]byte{
				"nil": nil, "empty": {}, "of 1": make([]byte, 1), "short by 1": make([]byte, size-1),
			} {
				var out item
				err := c.Call(bg, proc, &in, &out, sink, 0)
				if !errors.Is(err, ErrNoRoom) || errors.Is(err, ErrBadReply) || len(sink) > 0 && sink[0] != 0 {
					t.Errorf("%d bytes, sink %s: %v", size, name, err)
				}
				if want := "MIRROR: " + ErrNoRoom.Error(); err == nil || err.Error()[:min(len(err.Error()), len(want))] != want {
					t.Errorf("%d bytes, sink %s: %q", size, name, fmt.Sprint(err))
				}
			}
			var out item
			sink := make([]byte, size)
			if err := c.Call(bg, proc, &in, &out, sink, 0); err != nil || !bytes.Equal(out.data, in.data) {
				t.Errorf("%d bytes, a sink that fits: %d, %v", size, len(out.data), err)
			}
			kept := new(keptItem)
			if err := c.Call(bg, proc, &in, kept, nil, xdr.RoundUp(size)); err != nil || !bytes.Equal(kept.data, in.data) {
				t.Errorf("%d bytes, no sink and room in the message: %d, %v", size, len(kept.data), err)
			}
		}
		if c.conn != first {
			t.Error("the connection was given up")
		}
	})
}

// keptItem copies an item inside the message.
type keptItem struct{ data []byte }

func (i *keptItem) DecodeXDR(d *xdr.Decoder) { i.data = bytes.Clone(d.Item(1 << 20)) }

// TestReplyOverMaxRecord: the reply fails its call alone. The connection's other calls succeed over
// another connection.
func TestReplyOverMaxRecord(t *testing.T) {
	for _, n := range []network{{"TCP", listenTCP, DialTCP}, {"TLS", listenTLS, dialTLS}} {
		t.Run(n.name, func(t *testing.T) {
			s := NewServer(ServerConfig{}, mirror)
			addr, done, err := n.serve(s, "127.0.0.1:0")
			if err != nil {
				t.Fatalf("serve: %v", err)
			}
			defer shutdown(t, s, done)
			c := n.client(t, addr, ClientConfig{MaxRecord: 64 << 10, MaxRetries: 3})
			proc := &Proc{Prog: testProg, Vers: testVers, Proc: 1, Name: "MIRROR", MaxReply: 4}
			large, small := item{make([]byte, 64<<10)}, item{make([]byte, 1000)}
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					for range 50 {
						if err := c.Call(bg, proc, &small, new(keptItem), nil, 1000); err != nil {
							t.Errorf("a small reply beside the large one: %v", err)
						}
					}
				})
			}
			err = c.Call(bg, proc, &large, new(keptItem), nil, 64<<10)
			if !errors.Is(err, ErrNoRoom) || !strings.Contains(err.Error(), "MaxRecord") {
				t.Errorf("got %v, want ErrNoRoom that names MaxRecord", err)
			}
			wg.Wait()
		})
	}
}
