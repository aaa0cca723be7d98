// The choice of an export's flavor.

package nfsclient

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

const (
	none  = oncrpc.FlavorNone
	sys   = oncrpc.FlavorSys
	krb5  = oncrpc.FlavorKrb5
	krb5i = oncrpc.FlavorKrb5i
	krb5p = oncrpc.FlavorKrb5p
)

// errNoTicket is returned by Options.GSS in tests.
var errNoTicket = errors.New("no ticket")

// bare returns a Client without connections that can use Kerberos for the flavors in able.
func bare(able ...oncrpc.Flavor) *Client {
	c := &Client{flavor: sys, host: "srv", secure: new(secureClients)}
	c.opt.GSS = func(f oncrpc.Flavor, server string) (*transport.Auth, error) {
		for _, a := range able {
			if a == f && server == "srv" {
				return transport.NewAuth(transport.Cred{}), nil
			}
		}
		return nil, errNoTicket
	}
	return c
}

// The chosen flavor is the first in the server's list that the options allow and the client can
// use.
func TestFlavorOfExport(t *testing.T) {
	all := []oncrpc.Flavor{krb5, krb5i, krb5p}
	for _, tt := range []struct {
		offered, wanted, able []oncrpc.Flavor
		want                  oncrpc.Flavor
		err                   string
	}{
		{nil, nil, all, sys, ""},
		{nil, []oncrpc.Flavor{krb5p, sys}, all, krb5p, ""}, // a server without a list of flavors
		{[]oncrpc.Flavor{sys}, nil, all, sys, ""},
		{[]oncrpc.Flavor{sys, krb5}, nil, all, sys, ""},
		{[]oncrpc.Flavor{krb5, sys}, nil, all, krb5, ""},
		{[]oncrpc.Flavor{krb5, sys}, nil, nil, sys, ""},
		{[]oncrpc.Flavor{krb5, krb5i, krb5p}, nil, all[2:], krb5p, ""},
		{[]oncrpc.Flavor{krb5p, krb5i}, []oncrpc.Flavor{krb5i, krb5p}, all, krb5p, ""}, // the server's order
		{[]oncrpc.Flavor{sys, krb5}, []oncrpc.Flavor{krb5}, all, krb5, ""},
		{[]oncrpc.Flavor{6, 7, 390009, krb5}, nil, all, krb5, ""},
		{[]oncrpc.Flavor{none}, nil, all, sys, ""},
		{[]oncrpc.Flavor{none}, []oncrpc.Flavor{krb5i}, all, krb5i, ""},
		{[]oncrpc.Flavor{sys}, []oncrpc.Flavor{krb5}, all, 0, "mount /x: the server wants sec=sys, this client sec=krb5"},
		{[]oncrpc.Flavor{krb5, krb5p}, []oncrpc.Flavor{sys, krb5i}, all, 0, "mount /x: the server wants sec=krb5:krb5p, this client sec=sys:krb5i"},
		{[]oncrpc.Flavor{krb5, krb5p}, nil, nil, 0, "mount /x: the server wants sec=krb5:krb5p: krb5: no ticket"},
		{[]oncrpc.Flavor{krb5, sys}, []oncrpc.Flavor{krb5}, nil, 0, "mount /x: the server wants sec=krb5:sys, this client sec=krb5: krb5: no ticket"},
		{[]oncrpc.Flavor{6}, nil, all, 0, "mount /x: the server wants sec=6"},
	} {
		c := bare(tt.able...)
		c.opt.Sec = tt.wanted
		var list []uint32
		for _, f := range tt.offered {
			list = append(list, uint32(f))
		}
		got, err := c.WithFlavors("/x", list)
		switch {
		case tt.err != "":
			if err == nil || err.Error() != tt.err {
				t.Errorf("%v, %v: got %v, want %q", tt.offered, tt.wanted, err, tt.err)
			}
			if !errors.Is(err, syscall.EACCES) || errors.Is(err, errNoTicket) != strings.Contains(tt.err, "ticket") {
				t.Errorf("%v, %v: %v does not match its reasons", tt.offered, tt.wanted, err)
			}
		case err != nil:
			t.Errorf("%v, %v: got %v, want %v", tt.offered, tt.wanted, err, tt.want)
		case got.Flavor() != tt.want:
			t.Errorf("%v, %v: got %v, want %v", tt.offered, tt.wanted, got.Flavor(), tt.want)
		}
	}
}

// SecName returns the names used in sec=.
func TestSecName(t *testing.T) {
	for f, want := range map[oncrpc.Flavor]string{none: "none", sys: "sys", krb5: "krb5", krb5i: "krb5i", krb5p: "krb5p", 7: "tls", 390002: "390002", 390006: "390006"} {
		if got := SecName(f); got != want {
			t.Errorf("%d: got %s, want %s", uint32(f), got, want)
		}
	}
}

// A program without Kerberos uses the next flavor. A credential that is set in the options stays.
func TestFlavorWithoutKerberos(t *testing.T) {
	c := bare()
	c.opt.GSS = nil
	if got, err := c.WithFlavors("/x", []uint32{uint32(krb5), uint32(sys)}); err != nil || got != c {
		t.Errorf("krb5:sys: got %v, %v, want the same Client", got, err)
	}
	if _, err := c.WithFlavors("/x", []uint32{uint32(krb5)}); !errors.Is(err, ErrNoKerberos) {
		t.Errorf("krb5: got %v, want ErrNoKerberos", err)
	}
	c.flavor = none
	if got, err := c.WithFlavors("/x", []uint32{uint32(krb5)}); err != nil || got != c {
		t.Errorf("AUTH_NONE: got %v, %v, want the same Client", got, err)
	}
}

// All mounts with one flavor share a Client.
func TestFlavorSharesClient(t *testing.T) {
	c := bare(krb5, krb5i)
	one, err := c.withFlavor(krb5)
	must.Succeed(t, err)
	two, err := c.withFlavor(krb5)
	must.Succeed(t, err)
	other, err := c.withFlavor(krb5i)
	must.Succeed(t, err)
	if one != two || one == other || one.auth == nil {
		t.Errorf("got %p, %p for krb5 and %p for krb5i", one, two, other)
	}
	if as, err := c.withFlavor(oncrpc.FlavorDH); err == nil {
		t.Errorf("AUTH_DH: got a Client with flavor %v, want an error", as.Flavor())
	}
	c.server = new(group)
	if _, err := c.withFlavor(krb5p); err == nil || !strings.Contains(err.Error(), "name one server") {
		t.Errorf("several servers: got %v", err)
	}
}
