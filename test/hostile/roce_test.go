// Attackers at RoCE's UDP port: noise, requests from forged addresses, and guesses, while another
// client works.

package hostile

import (
	"bytes"
	"context"
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce"
	"github.com/nfsrdma/nfsrdma/rnic/roce/cm"
	"github.com/nfsrdma/nfsrdma/rnic/roce/mad"
	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
	"github.com/nfsrdma/nfsrdma/rnic/roce/udp"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/stack/rig"
)

// A forger sends datagrams from an address without RoCE, and counts the answers.
type forger struct {
	t    *testing.T
	r    *rand.Rand
	wire udp.Wire
	to   netip.AddrPort
	sent int
	came chan int
}

func newForger(t *testing.T, r *rand.Rand, at, server netip.Addr) *forger {
	t.Helper()
	w, err := udp.Open(netip.AddrPortFrom(at, 0))
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	f := &forger{t: t, r: r, wire: w, to: netip.AddrPortFrom(server, roce.UDPPort), came: make(chan int, 1)}
	go func() {
		all := 0
		for {
			n, err := w.Receive(false)
			if err != nil {
				f.came <- all
				return
			}
			all += n
		}
	}()
	return f
}

// say sends the n bytes built at the front of the wire's room.
func (f *forger) say(n int) {
	if err := f.wire.Add(n, packet.Tail{}, f.to); err != nil {
		f.t.Fatalf("Add: %v", err)
	}
	for f.wire.Len() > 0 {
		if _, full, err := f.wire.Send(); err != nil {
			f.wire.Drop()
		} else if full {
			_ = f.wire.WaitWritable()
		}
	}
	f.sent++
}

// noise sends a packet with any opcode to any queue pair, with a right ICRC. Some are a BTH whose
// opcode promises more headers: random bytes rarely do, and the test expects to see them counted.
func (f *forger) noise() {
	b := f.wire.Room()
	n := packet.BTHLen + 4*f.r.IntN(100)
	for i := 0; i+4 <= n; i += 4 {
		binary.LittleEndian.PutUint32(b[i:], f.r.Uint32())
	}
	switch f.r.IntN(8) {
	case 0:
		h := packet.BTH{Opcode: packet.RCWriteOnly, PKey: 0xffff, DestQP: f.r.Uint32() >> 8}
		(&packet.Header{BTH: h}).Append(b[:0])
		n = packet.BTHLen
	case 1, 2:
		h := packet.BTH{Opcode: packet.CNP, PKey: 0xffff, BECN: true, DestQP: f.r.Uint32() >> 8}
		n = len((&packet.Header{BTH: h}).Append(b[:0])) + 16
	}
	f.say(n)
}

// mad sends a datagram to the connection manager.
func (f *forger) mad(d *cm.Datagram) { f.say(len(d.Append(f.wire.Room()[:0], f.r.Uint32()))) }

// request requests a connection, and never confirms it.
func (f *forger) request() {
	// The manager is dropped afterwards, so the attacker keeps no state for the request.
	c := cm.New(cm.Config{Addr: f.wire.Local().Addr(), GUID: f.r.Uint64(), MTU: 3, Rand: f.r.Uint64})
	_, err := c.Connect(0, cm.Request{Peer: f.to.Addr(), Service: mad.IPService(mad.ProtocolTCP, 20049),
		Local: cm.QP{QPN: 2 + f.r.Uint32()>>9, PathMTU: 3, Transport: mad.ServiceRC}})
	if err != nil {
		f.t.Fatalf("Connect: %v", err)
	}
	var d cm.Datagram
	for c.PollSend(&d) {
		f.mad(&d)
	}
}

// guess sends a message for a connection whose numbers the forger can only guess.
func (f *forger) guess() {
	attrs := []mad.Attribute{mad.AttrRTU, mad.AttrREJ, mad.AttrDREQ, mad.AttrDREP, mad.AttrMRA, mad.AttrREP, mad.AttrLAP, mad.AttrSIDRREQ, 0x7fff}
	var d cm.Datagram
	for i := range d.MAD {
		d.MAD[i] = byte(f.r.Uint32())
	}
	h := mad.NewHeader(attrs[f.r.IntN(len(attrs))], f.r.Uint64())
	h.Append(d.MAD[:0])
	f.mad(&d)
}

// TestRoCEStrangers: attackers flood a server over RoCE with noise, requests to connect that are
// never confirmed, and guesses, from many addresses. The other client works, a new client is
// served, and the held memory stays small. The metrics count everything, and no address gets more
// datagrams than came from it.
func TestRoCEStrangers(t *testing.T) {
	host := machine.Addr(t).String()
	s := rig.Start(t, rig.Config{Host: host, RoCE: roce.Open(rnic.DeviceConfig{MaxHandshakes: 64})})
	beside := s.Mount(t, nfsclient.Options{Provider: nfsclient.RoCE})
	works := func() {
		t.Helper()
		ctx, cancel := context.WithTimeout(bg, 2*time.Minute)
		defer cancel()
		data := bytes.Repeat([]byte("good"), 50_000)
		if err := beside.WriteFile(ctx, "beside", data, 0o600); err != nil {
			t.Fatalf("WriteFile: %v", err)
		}
		if got, err := beside.ReadFile(ctx, "beside"); err != nil || !bytes.Equal(got, data) {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
	}
	works()
	before := map[string]uint64{}
	for _, d := range roce.Drops() {
		before[d.Reason] = d.Count
	}
	r := rand.New(rand.NewPCG(1, 4791))
	var forgers []*forger
	for i := range 20 {
		at := netip.AddrFrom4([4]byte{127, 250, byte(r.Uint32()), byte(1 + i)})
		forgers = append(forgers, newForger(t, r, at, netip.MustParseAddr(host)))
	}
	b := newBound(t)
	for round := range some(10, 200) {
		for _, f := range forgers {
			for range 10 {
				f.noise()
				f.request()
				f.guess()
			}
		}
		if round%5 == 0 {
			works()
		}
	}
	works()
	b.within("strangers", small, 150)
	// comes in the middle of the half-open connections
	late := s.Mount(t, nfsclient.Options{Provider: nfsclient.RoCE})
	if _, err := late.ReadFile(bg, "beside"); err != nil {
		t.Errorf("ReadFile: %v", err)
	}
	for _, d := range roce.Drops() {
		if n := d.Count - before[d.Reason]; n == 0 && counted[d.Reason] {
			t.Errorf("nothing was dropped for %q", d.Reason)
		}
	}
	time.Sleep(50 * time.Millisecond) // for datagrams still on their way
	for _, f := range forgers {
		f.wire.Close()
		if came := <-f.came; came > f.sent {
			t.Errorf("%v has sent %d and was sent %d", f.wire.Local(), f.sent, came)
		}
	}
}

// counted has the metrics' labels that must have counts after the attacks.
var counted = map[string]bool{"no such QP": true, "malformed": true, "CM: no such connection": true, "CM: attribute": true}
