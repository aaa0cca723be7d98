// The tests of perftest between two of our ends, and against peers that make mistakes.

package verbs

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/verbs/exchange"
	"github.com/nfsrdma/nfsrdma/rnic"
)

// perfOf returns a function that runs Perf for one test.
func perfOf(name string) func(context.Context, Options) (*PerfReport, error) {
	return func(ctx context.Context, o Options) (*PerfReport, error) { return Perf(ctx, name, o) }
}

func TestPerf(t *testing.T) {
	for _, cm := range []bool{false, true} {
		testPerf(t, cm)
	}
}

func testPerf(t *testing.T, cm bool) {
	for name, test := range perfTests {
		for _, service := range test.services {
			if cm && service == rnic.UC {
				continue // refused: see TestPerfChecksOptions
			}
			s, c, err, err2 := both(t, Options{Service: service, Iterations: 200, CM: cm}, perfOf(name), nil, nil)
			if err != nil || err2 != nil {
				t.Fatalf("%s over %v (%v): server: %v; client: %v", name, service, cm, err, err2)
			}
			if s.Local != c.Remote || s.Remote != c.Local {
				t.Errorf("server %s with %s, client %s with %s", s.Local, s.Remote, c.Local, c.Remote)
			}
			if s.Role != "server" || c.Test != "ib_"+name || s.MTU != c.MTU || s.Size != c.Size {
				t.Errorf("%+v and %+v are not of one test", s, c)
			}
			latency := name == "read_lat"
			if c.Messages != 200 || c.Bytes != 200*uint64(c.Size) || c.Seconds <= 0 {
				t.Errorf("%d messages, %d bytes, %v s, want 200 messages of %d bytes", c.Messages, c.Bytes, c.Seconds, c.Size)
			}
			if (c.Max > 0) != latency || (c.Average > 0) == latency {
				t.Errorf("%+v, want either a latency or a throughput, latency: %v", c, latency)
			}
			// UC and UD lose messages when the socket's buffer is full.
			if !latency && (s.Messages > 200 || s.Messages < 200 && (service == rnic.RC || s.Messages == 0)) {
				t.Errorf("%s over %v: %d messages have come", name, service, s.Messages)
			}
			if want := uint64(s.Size) * uint64(s.Messages); s.Bytes != want {
				t.Errorf("%s over %v: the server reports %d bytes of %d messages, want %d", name, service, s.Bytes, s.Messages, want)
			}
			for _, r := range []*PerfReport{s, c} {
				j, err := json.Marshal(r)
				if err != nil || strings.Contains(string(j), `"bytes":0`) {
					t.Errorf("%s over %v as %s: %s, %v, want true bytes or no key", name, service, r.Role, j, err)
				}
				var b bytes.Buffer
				if err := r.Table(&b); err != nil || !strings.HasPrefix(b.String(), "ib_"+name+" over ") || strings.Count(b.String(), "\n") != 2 {
					t.Errorf("%q, %v", &b, err)
				}
			}
		}
	}
}

// TestPerfAgrees: the ends use the smaller of their path MTUs. A datagram has that size unless a
// smaller one is requested.
func TestPerfAgrees(t *testing.T) {
	s, c, err, err2 := both(t, Options{Service: rnic.UD, Iterations: 10}, perfOf("send_bw"), func(o *Options) { o.MTU = 512 }, nil)
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	if s.MTU != 512 || c.MTU != 512 || s.Size != 512 || c.Size != 512 {
		t.Errorf("%+v, %+v", s, c)
	}
	_, _, err, err2 = both(t, Options{Service: rnic.UD, Size: 2048, MTU: 1024}, perfOf("ib_send-bw"), nil, nil)
	for _, err := range []error{err, err2} {
		if err == nil || !strings.Contains(err.Error(), "--size 2048") && err != context.Canceled && !strings.Contains(err.Error(), "closed the connection") {
			t.Errorf("a datagram of two packets: %v", err)
		}
	}
}

// TestPerfLost: a UD server reports how many messages it has received when its client is done.
func TestPerfLost(t *testing.T) {
	s, _, err, err2 := both(t, Options{Service: rnic.UD, Iterations: 40}, perfOf("send_bw"), nil, func(o *Options) { o.Iterations = 30 })
	if err != nil || err2 != nil || s.Messages > 30 || s.Messages == 0 || s.Iterations != 40 {
		t.Errorf("%+v, %v, %v", s, err, err2)
	}
	_, _, err, _ = both(t, Options{Service: rnic.RC, Iterations: 40, Size: 100}, perfOf("send_bw"), nil, func(o *Options) { o.Iterations = 30 })
	if err == nil || !strings.Contains(err.Error(), "after 30 of 40 messages") {
		t.Errorf("a server of RC of which 10 messages are missing: %v", err)
	}
}

// TestPerfTestsDiffer: if the ends run different tests, at least one end refuses with an
// explanation.
func TestPerfTestsDiffer(t *testing.T) {
	_, _, err, err2 := both(t, Options{Service: rnic.RC, Iterations: 3, Size: 100}, func(ctx context.Context, o Options) (*PerfReport, error) {
		if o.server() {
			return Perf(ctx, "send_bw", o)
		}
		return Perf(ctx, "write_bw", o)
	}, nil, nil)
	if err == nil && err2 == nil {
		t.Error("Writes have gone to an end that gives no memory")
	}
}

func TestPerfChecksOptions(t *testing.T) {
	for want, f := range map[string]func() error{
		"no such test; there are read_lat, send_bw, write_bw": func() error { _, err := Perf(t.Context(), "bw", Options{Port: 1}); return err },
		"--service ud": func() error { _, err := Perf(t.Context(), "write_bw", Options{Port: 1, Service: rnic.UD}); return err },
		"--service uc": func() error { _, err := Perf(t.Context(), "read_lat", Options{Port: 1, Service: rnic.UC}); return err },
		"--service uc: perftest has none with": func() error {
			_, err := Perf(t.Context(), "send_bw", Options{Port: 1, Service: rnic.UC, CM: true})
			return err
		},
		"--port": func() error { _, err := Perf(t.Context(), "read_lat", Options{}); return err },
	} {
		if err := f(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestPerfOfStrangers: a client with another exchange is refused at its first wrong message, with
// an explanation.
func TestPerfOfStrangers(t *testing.T) {
	good := string(exchange.AppendVersion(nil, "5.99")) + "\x00\x00\x10\x00\x00\x00\x00\x40" + "3\x00"
	for want, text := range map[string]string{
		"no version of perftest":     "GET / HTTP/1.0\r\n\r\n",
		"only versions 5.70 to 6.20": string(exchange.AppendVersion(nil, "7.00")),
		"at most 1048576 are given":  strings.Replace(good, "\x00\x00\x10\x00", "\x10\x00\x00\x00", 1),
		"no code of a path MTU":      strings.Replace(good, "3\x00", "9\x00", 1),
		"not a line of that format":  good + strings.Repeat("z", exchange.KeyLen),
		"has closed the connection":  good,
	} {
		_, _, err, _ := both(t, Options{Service: rnic.RC, Iterations: 3, Size: 100}, func(ctx context.Context, o Options) (*PerfReport, error) {
			if o.server() {
				return Perf(ctx, "send_bw", o)
			}
			c, err := net.Dial("tcp", o.address())
			if err != nil {
				return nil, err
			}
			defer c.Close()
			io.WriteString(c, text)
			c.(*net.TCPConn).CloseWrite()
			io.Copy(io.Discard, c)
			return nil, nil
		}, nil, nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// TestPerfByCMOfStrangers: a client that connects by the connection manager and sends other
// messages is refused with an explanation, as over TCP.
func TestPerfByCMOfStrangers(t *testing.T) {
	version := exchange.AppendVersion(nil, "6.06")
	for want, messages := range map[string][][]byte{
		"no version of perftest":          {make([]byte, exchange.VersionLen)},
		"at most 1048576 are given":       {version, {16, 0, 0, 0}},
		"no code of a path MTU":           {version, {0, 0, 16, 0}, {0, 0, 0, 64}, {'9', 0}},
		"has closed the connection: it":   {version},
		"nothing has come for too long: ": {version, nil},
	} {
		_, _, err, _ := both(t, Options{Service: rnic.RC, Iterations: 3, Size: 100, CM: true}, func(ctx context.Context, o Options) (*PerfReport, error) {
			if o.server() {
				return Perf(ctx, "send_bw", o)
			}
			return nil, strange(ctx, &o, messages)
		}, func(o *Options) {
			if messages[len(messages)-1] == nil {
				o.Silence = time.Second
			}
		}, nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", messages, err, want)
		}
	}
}

// strange sends messages, each after the answer to the previous one, and closes the connection
// after the last answer. With nil as a message, it waits until the server closes.
func strange(ctx context.Context, o *Options, messages [][]byte) error {
	t, err := connectControlByCM(ctx, o)
	if err != nil {
		return nil // the server's error counts
	}
	defer t.close()
	for _, m := range messages {
		if m == nil {
			_, _ = t.await(1)
			return nil
		}
		if t.send(m) != nil {
			return nil
		}
		if _, err := t.await(len(m)); err != nil {
			return nil
		}
	}
	t.cm.e.finish()
	return nil
}
