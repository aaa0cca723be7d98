// The pingpongs between two of our ends, and against peers that make mistakes.

package verbs

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/verbs/exchange"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce"
	"github.com/nfsrdma/nfsrdma/test/machine"
)

func TestPingpong(t *testing.T) {
	for _, service := range []rnic.Service{rnic.RC, rnic.UC, rnic.UD} {
		for _, size := range []int{0, 1, 1024} {
			s, c, err, err2 := both(t, Options{Service: service, Size: size, Iterations: 50}, Pingpong, nil, nil)
			if err != nil || err2 != nil {
				t.Fatalf("%v, %d bytes: server: %v; client: %v", service, size, err, err2)
			}
			if s.Role != "server" || c.Role != "client" || s.Local != c.Remote || s.Remote != c.Local {
				t.Errorf("%+v and %+v are not of one test", s, c)
			}
			for _, r := range []*PingpongReport{s, c} {
				if r.Iterations != 50 || r.Bytes != 100*uint64(r.Size) {
					t.Errorf("%d iterations, %d bytes, want 50, 100 messages of %d", r.Iterations, r.Bytes, r.Size)
				}
				if r.Seconds <= 0 || r.Megabits <= 0 || r.PerIteration <= 0 {
					t.Errorf("%+v, want times and a rate above 0", r)
				}
				var b bytes.Buffer
				if err := r.Table(&b); err != nil || !strings.Contains(b.String(), "50 iterations of") {
					t.Errorf("%q, %v", &b, err)
				}
			}
		}
	}
}

// TestPingpongOptionsDiffer: if the ends' options differ, at least one end reports it.
func TestPingpongOptionsDiffer(t *testing.T) {
	for _, service := range []rnic.Service{rnic.RC, rnic.UC, rnic.UD} {
		_, _, err, err2 := both(t, Options{Service: service, Size: 100, Iterations: 3}, Pingpong, nil, func(o *Options) { o.Size = 200 })
		if err == nil || !strings.Contains(err.Error(), "--size 200") {
			t.Errorf("%v: the server of another size ended with %v, the client with %v", service, err, err2)
		}
	}
}

// TestPingpongChecksOptions: invalid options are refused before the connection is made.
func TestPingpongChecksOptions(t *testing.T) {
	for want, o := range map[string]Options{
		"--port 0":        {},
		"--port 70000":    {Port: 70000},
		"--size -1":       {Port: 1, Size: -1},
		"--count -1":      {Port: 1, Iterations: -1},
		"--mtu 1500":      {Port: 1, MTU: 1500},
		"--size 99999999": {Port: 1, Size: 1<<28 + 1},
	} {
		_, err := Pingpong(t.Context(), o)
		if name, _, _ := strings.Cut(want, " "); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%+v: %v, want %s", o, err, want)
		}
	}
}

// TestPingpongLost: a message that never arrives ends the test with an error.
func TestPingpongLost(t *testing.T) {
	for silence := 300 * time.Millisecond; ; silence *= 4 {
		_, _, err, err2 := both(t, Options{Service: rnic.UD, Iterations: 20, Silence: silence}, Pingpong, nil, func(o *Options) { o.Iterations = 10 })
		if err == nil {
			t.Fatal("the server has had messages that were not sent")
		}
		if err2 == nil && strings.Contains(err.Error(), "after 10 of 20 messages") && errors.Is(err, errSilent) {
			return
		}
		if silence > time.Minute { // on a slow machine the ends may need longer to begin
			t.Fatalf("server: %v; client: %v", err, err2)
		}
	}
}

// TestPingpongOfStrangers: anything but a pingpong is refused with its source address.
func TestPingpongOfStrangers(t *testing.T) {
	line := string(exchange.AppendPingpong(nil, exchange.Pingpong{QPN: 17, GID: mustAddr("127.0.0.1")}))
	for want, text := range map[string]string{
		"has closed the connection": "GET / HTTP/1.0\r\n\r\n",
		"not a line":                strings.Repeat("x", exchange.PingpongLen),
		"no address":                strings.Replace(line, "ffff7f000001", "000000000000", 1),
		"same family":               strings.Replace(line, "ffff7f000001", "000000000001", 1),
	} {
		_, _, err, _ := both(t, Options{Service: rnic.RC, Iterations: 3}, func(ctx context.Context, o Options) (*PingpongReport, error) {
			if o.server() {
				return Pingpong(ctx, o)
			}
			c, err := net.Dial("tcp", o.address())
			if err != nil {
				return nil, err
			}
			defer c.Close()
			io.WriteString(c, text)
			if len(text) >= exchange.PingpongLen {
				io.Copy(io.Discard, c)
			}
			return nil, nil
		}, nil, nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// TestPingpongInterrupted: a server that waits for its client ends with its context.
func TestPingpongInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	a := machine.Addr(t)
	_, err := Pingpong(ctx, Options{Port: machine.Port(t), Local: a, Device: roce.Open(rnic.DeviceConfig{}), Waiting: func(net.Addr) { cancel() }})
	if err != context.Canceled {
		t.Errorf("ended with %v", err)
	}
}

func mustAddr(s string) netip.Addr { return netip.MustParseAddr(s) }
