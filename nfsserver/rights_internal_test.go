// Which export above a path decides while a client's name is not resolved.

package nfsserver

import (
	"errors"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"

	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// A silentNames is a name service that never answers.
type silentNames struct{}

func (silentNames) Addrs(string) ([]netip.Addr, bool) { return nil, false }
func (silentNames) Names(netip.Addr) ([]string, bool) { return nil, false }

// TestAbovePrefersBusy: the nearest export that refuses decides, unless one above it is undecided.
// A refusal is final for a client, so it would be wrong while the name service is merely slow.
func TestAbovePrefersBusy(t *testing.T) {
	for _, c := range []struct {
		text string
		want error
	}{
		{"/x pc(rw)\n/x/in 192.0.2.1(rw)\n", ErrBusy},
		{"/x 192.0.2.1(rw)\n/x/in pc(rw)\n", ErrBusy},
		{"/x 192.0.2.1(rw)\n/x/in 192.0.2.1(rw)\n", nfs3.ErrAcces},
	} {
		synctest.Test(t, func(t *testing.T) {
			f, err := exports.Parse("exports", []byte(c.text))
			if err != nil {
				t.Fatalf("exports.Parse: %v", err)
			}
			o := Options{Names: silentNames{}}
			for _, x := range f.Exports {
				o.Exports = append(o.Exports, Export{Name: x.Path, Rules: x, Open: func() (FS, error) { return nil, ErrStale }})
			}
			s, err := New(o)
			if err != nil {
				t.Fatalf("New: %v", err)
			}
			defer s.Close()
			call := &transport.Call{Remote: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7), Port: 700}}
			if _, _, _, err := s.above(call, "/x/in/deep"); !errors.Is(err, c.want) {
				t.Errorf("%q: %v, want %v", c.text, err, c.want)
			}
		})
	}
}
