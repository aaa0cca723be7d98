// The same calls over TCP and over RDMA.

package transport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"
)

var bg = context.Background()

func TestCalls(t *testing.T) {
	overEach(t, func(t *testing.T, n network) {
		_, _, addr := n.start(t, ServerConfig{})
		calls(t, n.client(t, addr, ClientConfig{Cred: SysCred()}))
	})
}

// calls runs the whole test program over a client.
func calls(t *testing.T, c *Client) {
	if err := c.Call(bg, testProc(tNull), nil, nil, nil, 0); err != nil {
		t.Errorf("NULL: %v", err)
	}
	out := words{0}
	if err := c.Call(bg, testProc(tAdd), words{40, 2}, out, nil, 0); err != nil || out[0] != 42 {
		t.Errorf("ADD = %v, %v", out, err)
	}
	for _, n := range []int{0, 1, 3, 4, 100, 5000, 300000} {
		in, got := &text{make([]byte, n)}, &text{}
		fill(in.s)
		if err := c.Call(bg, testProc(tEcho), in, got, nil, n); err != nil || !bytes.Equal(in.s, got.s) {
			t.Errorf("ECHO of %d: %d bytes, %v", n, len(got.s), err)
		}
	}
	for _, n := range []int{0, 1, 3, 4, 1000, 4096, 65537, 1 << 20} {
		want := make([]byte, n)
		fill(want)
		sink := make([]byte, n+8)
		var r readRes
		if err := c.Call(bg, testProc(tRead), words{uint32(n)}, &r, sink, 0); err != nil || !bytes.Equal(r.data, want) {
			t.Errorf("READ of %d: %d bytes, %v", n, len(r.data), err)
		} else if n > 0 && &r.data[0] != &sink[0] {
			t.Errorf("READ of %d: the item is not in the sink", n)
		}
		if err := c.Call(bg, testProc(tWrite), &writeArgs{want}, words{0, 0}, nil, 0); err != nil {
			t.Errorf("WRITE of %d: %v", n, err)
		}
	}
	var auth *AuthError
	if err := c.Call(bg, testProc(tAuth), nil, nil, nil, 0); !errors.As(err, &auth) || auth.Stat != 5 {
		t.Errorf("AUTH: %v", err)
	}
	for _, tc := range []struct {
		proc *Proc
		want error
	}{
		{testProc(tPanic), ErrSystem},
		{testProc(tSystem), ErrSystem},
		{testProc(tAdd), ErrGarbageArgs}, // no arguments
		{testProc(tNone), ErrProcUnavail},
		{testProc(9999), ErrProcUnavail},
		{&Proc{Prog: 77, MaxReply: 64}, ErrProgUnavail},
	} {
		if err := c.Call(bg, tc.proc, nil, nil, nil, 0); !errors.Is(err, tc.want) {
			t.Errorf("procedure %d: %v, want %v", tc.proc.Proc, err, tc.want)
		}
	}
	var mm *MismatchError
	err := c.Call(bg, &Proc{Prog: testProg, Vers: 9, MaxReply: 64}, nil, nil, nil, 0)
	if !errors.As(err, &mm) || mm.Low != testVers || mm.High != testVers {
		t.Errorf("version 9: %v", err)
	}
}

func TestManyCallsAtOnce(t *testing.T) {
	overEach(t, func(t *testing.T, n network) {
		_, _, addr := n.start(t, ServerConfig{Workers: 8})
		manyCalls(t, n.client(t, addr, ClientConfig{}))
	})
}

func manyCalls(t *testing.T, c *Client) {
	var wg sync.WaitGroup
	for g := range 32 {
		wg.Go(func() {
			for i := range 50 {
				if err := oneOf(c, g, i); err != nil {
					t.Errorf("oneOf: %v", err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// oneOf makes one call that checks itself.
func oneOf(c *Client, g, i int) error {
	switch i % 3 {
	case 0:
		out := words{0}
		if err := c.Call(bg, testProc(tAdd), words{uint32(g), uint32(i)}, out, nil, 0); err != nil || out[0] != uint32(g+i) {
			return fmt.Errorf("ADD %d %d = %v, %v", g, i, out, err)
		}
	case 1:
		n := g*1000 + i
		var r readRes
		if err := c.Call(bg, testProc(tRead), words{uint32(n)}, &r, make([]byte, n), 0); err != nil || len(r.data) != n {
			return fmt.Errorf("READ %d: %d, %v", n, len(r.data), err)
		}
	case 2:
		b := make([]byte, g*900+i)
		fill(b)
		out := words{0, 0}
		if err := c.Call(bg, testProc(tWrite), &writeArgs{b}, out, nil, 0); err != nil || out[0] != uint32(len(b)) || out[1] != sum(b) {
			return fmt.Errorf("WRITE %d = %v, %v", len(b), out, err)
		}
	}
	return nil
}

// A file system's most frequent calls allocate nothing after the first run.
func TestNoAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("pools drop at random under the race detector")
	}
	overEach(t, func(t *testing.T, n network) {
		_, _, addr := n.start(t, ServerConfig{})
		c := n.client(t, addr, ClientConfig{Cred: SysCred()})
		sink := make([]byte, 32<<10)
		read, write, add := testProc(tRead), testProc(tWrite), testProc(tAdd)
		in, res := words{32 << 10}, &readRes{}
		data, two, out := &writeArgs{sink}, words{1, 2}, words{0}
		ctx, cancel := context.WithTimeout(bg, time.Hour)
		defer cancel()
		// crypto/tls allocates for each record that it reads; 32 KiB with headers are three. Over
		// RDMA a WRITE has a Read Request and its responses, too.
		records := map[string]map[string]float64{
			"TLS":      {"ADD": 2, "READ": 4, "WRITE": 4, "READ that can be given up": 4},
			"RDMA-TLS": {"ADD": 2, "READ": 4, "WRITE": 6, "READ that can be given up": 4},
		}[n.name]
		for name, call := range map[string]func() error{
			"READ":                      func() error { return c.Call(bg, read, &in, res, sink, 0) },
			"WRITE":                     func() error { return c.Call(bg, write, data, &out, nil, 0) },
			"ADD":                       func() error { return c.Call(bg, add, &two, &out, nil, 0) },
			"READ that can be given up": func() error { return c.Call(ctx, read, &in, res, sink, 0) },
		} {
			allocs := testing.AllocsPerRun(500, func() {
				if err := call(); err != nil {
					t.Fatalf("call: %v", err)
				}
			})
			if most := records[name]; allocs > most {
				t.Errorf("%s allocates %v times, want %v", name, allocs, most)
			}
		}
	})
}

// TestTimerThatLostToItsReply: an attempt that ended at the moment of its reply has succeeded,
// and its timer has fired. The next call with the same memory times out correctly.
func TestTimerThatLostToItsReply(t *testing.T) {
	k := new(Client).newOutCall()
	k.arm(now())
	<-k.expired.C
	if k.tooEarly() {
		t.Fatal("too early, where the time has come")
	}
	k.arm(now().Add(time.Millisecond))
	select {
	case <-k.expired.C:
	case <-time.After(5 * time.Minute):
		t.Error("the timer is not set")
	}
}
