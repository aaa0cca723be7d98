// The provider as rnic.Open finds it, and the options specific to it.

package iwarp

import (
	"errors"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/term"
)

// TestOpenByName: rnic.Open finds the provider by its name, with its capabilities.
func TestOpenByName(t *testing.T) {
	dev, err := rnic.Open(Name, rnic.DeviceConfig{MaxIRD: 7, MaxORD: 1 << 20})
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	want := rnic.Caps{Provider: Name, Services: 1 << rnic.RC, Reliable: true, RDMARead: true, RemoteInval: true,
		MaxIRD: 7, MaxORD: maxReads, MaxMessage: 1<<32 - 1, MaxPrivateData: 508}
	if got := dev.Caps(); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	cq := dev.NewCQ(1)
	for _, s := range []rnic.Service{rnic.UC, rnic.UD} {
		if _, err := dev.AllocPD().CreateQP(rnic.QPConfig{Service: s, SendCQ: cq, RecvCQ: cq}); err == nil {
			t.Errorf("a QP of service %v", s)
		}
	}
}

// TestConnectionsTell: both ends of a connection report whether it has CRCs. They take Sources only
// if segments are long and the peer requests no markers.
func TestConnectionsTell(t *testing.T) {
	off := rnic.DeviceConfig{CRC: rnic.CRCOff}
	for _, c := range []struct {
		name                 string
		initiator, responder rnic.DeviceConfig
		crc, sources         bool // sources: of the initiator
	}{
		{"CRCs", rnic.DeviceConfig{}, rnic.DeviceConfig{}, true, true},
		{"none", off, off, false, true},
		{"one end asks for them", off, rnic.DeviceConfig{}, true, true},
		{"markers", rnic.DeviceConfig{}, rnic.DeviceConfig{Markers: true}, true, false},
	} {
		a, b := joined(t, c.initiator, c.responder, 4)
		for _, end := range []*side{a, b} {
			if got := end.qp.CRC(); got != c.crc {
				t.Errorf("%s: CRCs %v, want %v", c.name, got, c.crc)
			}
		}
		if got := a.qp.TakesSources(); got != c.sources {
			t.Errorf("%s: the initiator takes Sources %v, want %v", c.name, got, c.sources)
		}
		a.qp.Close()
		b.qp.Close()
	}
}

// TestOptionsOfAnother: options that are not this provider's are refused, on both sides.
func TestOptionsOfAnother(t *testing.T) {
	a, b := newSide(t, rnic.DeviceConfig{}, 4), newSide(t, rnic.DeviceConfig{}, 4)
	l, err := b.dev.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	defer l.Close()
	wrong := rnic.ConnParams{Provider: 7}
	if err := a.dev.Connect(t.Context(), a.qp, l.Addr().String(), wrong); !errors.Is(err, errOptions) {
		t.Error(err)
	}
	go a.dev.Connect(t.Context(), a.qp, l.Addr().String(), rnic.ConnParams{})
	r, err := l.Accept(t.Context())
	if err != nil {
		t.Fatalf("Accept: %v", err)
	}
	if err := r.Accept(b.qp, wrong); !errors.Is(err, errOptions) {
		t.Error(err)
	}
}

// TestRefusedSTag: after the peer has ended a QP, the error has the refused STag, in terms common
// to all providers.
func TestRefusedSTag(t *testing.T) {
	for code, want := range map[term.Code]bool{term.RDMAPBounds: true, term.DDPInvalidSTag: true, term.RDMAPOpcode: false, term.DDPNoBuffer: false, term.MPACRC: false} {
		var err error = &term.PeerError{Code: code, STag: 0x1234}
		var e rnic.PeerError
		if !errors.As(err, &e) {
			t.Fatal("not a PeerError")
		}
		stag, ok := e.RefusedSTag()
		if ok != want {
			t.Errorf("%v: an STag is refused: %v, want %v", code, ok, want)
		}
		if ok && stag != 0x1234 {
			t.Errorf("%v: refused STag %#x, want 0x1234", code, stag)
		}
	}
	if _, ok := (&term.PeerError{Code: term.RDMAPBounds}).RefusedSTag(); ok {
		t.Error("no STag came with it")
	}
}

// TestNoOtherServices: iWARP has reliable connections alone, and refuses to listen for other
// services.
func TestNoOtherServices(t *testing.T) {
	for _, s := range []rnic.Service{rnic.UC, rnic.UD} {
		_, err := Open(rnic.DeviceConfig{}).ListenFor(s, "tcp", "127.0.0.1:0")
		if err == nil || !strings.Contains(err.Error(), "iwarp and "+s.String()) {
			t.Errorf("%v: %v", s, err)
		}
	}
}
