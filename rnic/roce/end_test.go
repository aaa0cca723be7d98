// Ending QPs, and the errors that programs get.

package roce

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/core"
	"github.com/nfsrdma/nfsrdma/test/machine"
)

// TestAbortFlushes: all posted work completes as flushed, and the first cause stays.
func TestAbortFlushes(t *testing.T) {
	a, b := pair(t, rnic.RC, Options{}, 1024)
	a.recv(1, 10)
	a.recv(2, 10)
	b.qp.Close()
	a.post(rnic.SendWR{ID: 3, Op: rnic.OpSend})
	why := errors.New("enough")
	a.qp.Abort(why)
	a.qp.Close()
	for _, wc := range a.wait(3) {
		if wc.Status != rnic.WCFlushErr {
			t.Error(wc)
		}
	}
	if a.qp.Err() != why || a.qp.State() != rnic.StateError {
		t.Error(a.qp.Err(), a.qp.State())
	}
	if err := a.qp.PostSend(rnic.SendWR{Op: rnic.OpSend}); err != rnic.ErrState {
		t.Errorf("PostSend: %v, want %v", err, rnic.ErrState)
	}
}

// TestSilentPeer: a silent peer ends the QP after some retries.
func TestSilentPeer(t *testing.T) {
	at, to := hosts(t)
	a := newSide(t, Open(rnic.DeviceConfig{}), rnic.RC).bind(at)
	a.connect(OutOfBand{Peer: Identity{Addr: to, QPN: 0x123456}, Timeout: 8, Retries: 3})
	a.post(rnic.SendWR{Op: rnic.OpSend})
	if wc := a.wait(1)[0]; wc.Status != rnic.WCFlushErr {
		t.Error(wc)
	}
	<-a.qp.Done()
	if err := a.qp.Err(); !errors.Is(err, core.ErrRetry) || !errors.Is(err, rnic.ErrConnLost) {
		t.Errorf("Err: %v, want %v and %v", err, core.ErrRetry, rnic.ErrConnLost)
	}
}

// TestRefusedAccess: a Write to memory without permission is refused, both ends end, and the
// writer learns the STag.
func TestRefusedAccess(t *testing.T) {
	a, b := pair(t, rnic.RC, Options{}, 1024)
	mr, _ := b.region(100, rnic.RemoteRead)
	a.post(rnic.SendWR{Op: rnic.OpWrite, SGL: [][]byte{make([]byte, 10)}, RemoteSTag: mr.STag(), RemoteTO: mr.Base()})
	if wc := a.wait(1)[0]; wc.Status != rnic.WCRemErr {
		t.Error(wc)
	}
	<-a.qp.Done()
	<-b.qp.Done()
	var told rnic.PeerError
	if !errors.As(a.qp.Err(), &told) {
		t.Fatal(a.qp.Err())
	}
	if stag, ok := told.RefusedSTag(); !ok || stag != uint32(mr.STag()) {
		t.Errorf("%#x", stag)
	}
	var fault *core.Fault
	if !errors.As(b.qp.Err(), &fault) {
		t.Error(b.qp.Err())
	}
}

// TestPortsAreReleased: an address is free after its last QP has been closed, connected or not.
func TestPortsAreReleased(t *testing.T) {
	at, to := hosts(t)
	a, b := pairAt(t, rnic.RC, Options{}, 1024, at, to)
	idle := newSide(t, Open(rnic.DeviceConfig{}), rnic.RC).bind(at)
	for _, s := range []*side{idle, a, b} {
		s.qp.Close()
	}
	for _, addr := range []netip.Addr{at, to} {
		c, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr, UDPPort)))
		if err != nil {
			t.Fatalf("ListenUDP: %v", err)
		}
		c.Close()
	}
}

// TestPortInUse: another program has our address's port. Listening there fails with an
// explanation. A client of this host uses another source address, always the same, because a
// server identifies clients by it.
func TestPortInUse(t *testing.T) {
	port := uint16(machine.Port(t))
	other, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: int(port)})
	if err != nil {
		t.Fatalf("ListenUDP: %v", err)
	}
	defer other.Close()
	dev := OpenWith(rnic.DeviceConfig{}, Options{Port: port})
	if _, err := dev.Listen("udp", fmt.Sprintf("127.0.0.1:%d", service)); !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), fmt.Sprintf("UDP port %d of 127.0.0.1 is in use", port)) {
		t.Error(err)
	}
	m := meet(t, Options{Port: port})
	var first netip.Addr
	for i := range 3 {
		a, b := m.connected(t, rnic.ConnParams{}, rnic.ConnParams{})
		operations(t, a, b, []int{1000})
		from := b.qp.RemoteAddr().(*net.UDPAddr).AddrPort().Addr()
		if i == 0 {
			first = from
		} else if from != first {
			t.Errorf("connected from %v, and now from %v", first, from)
		}
		a.qp.Close()
		<-b.qp.Done()
	}
}
