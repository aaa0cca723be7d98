// Repeated calls over connections of both transports.

package transport

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
)

// TestRepeatsAcrossTransports: each live connection of a host gets its own reply to the same
// bytes. A later connection, by any transport, gets the reply of one that has ended.
func TestRepeatsAcrossTransports(t *testing.T) {
	_, s, addr := networks[1].start(t, ServerConfig{})
	tcp, _, err := listenTCP(s, "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listenTCP: %v", err)
	}
	dev := iwarp.Open(rnic.DeviceConfig{})
	dial := func() *rpcrdma.Conn {
		c, err := rpcrdma.Dial(t.Context(), dev, addr, rpcrdma.Config{})
		if err != nil {
			t.Fatalf("Dial: %v", err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	want := func(name string, got, want uint32) {
		t.Helper()
		if got != want {
			t.Errorf("%s: the reply of run %d, want %d", name, got, want)
		}
	}
	overRDMA := func(c *rpcrdma.Conn) uint32 {
		t.Helper()
		k := c.NewCall()
		defer k.Release()
		k.Msg, k.MaxReply = callOf(7, tCount, 1), 64
		if err := c.Do(t.Context(), k); err != nil {
			t.Fatalf("Do: %v", err)
		}
		return binary.BigEndian.Uint32(k.Reply.Stream[24:])
	}
	overTCP := func() (func() uint32, func()) {
		c := dialFrom(t, tcp, 0)
		return func() uint32 { sendRaw(t, c, callOf(7, tCount, 1)); return resultRaw(t, c) }, func() { _ = c.SetLinger(0); c.Close() }
	}
	connections := func(n int) { await(t, func() bool { list, _ := s.Conns(); return len(list) == n }) }

	one, two := dial(), dial()
	want("the first", overRDMA(one), 1)
	want("the second, beside it", overRDMA(two), 2)
	one.Abort(errors.New("cut"))
	connections(1)
	three := dial()
	want("one more, after the end of the first", overRDMA(three), 1)
	call, reset := overTCP()
	want("TCP, beside the others", call(), 3)
	two.Close()
	connections(2)
	again, _ := overTCP()
	want("TCP, after the end of the second", again(), 2)
	reset()
	connections(2)
	four := dial()
	want("RDMA, after the reset of TCP", overRDMA(four), 3)
	for range 3 {
		want("TCP again", again(), 2)
		want("RDMA again", overRDMA(four), 3)
		want("the third again", overRDMA(three), 1)
	}
}
