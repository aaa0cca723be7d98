// A provider without reliable connections is refused before anything is sent.

package rpcrdma

import (
	"context"
	"errors"
	"net"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/test/conformance"
)

// lossy is a provider that only declares its capabilities: any other use fails the test.
type lossy struct {
	t    *testing.T
	caps rnic.Caps
}

func (l lossy) Caps() rnic.Caps { return l.caps }
func (l lossy) NewEndpoint(*rnic.ProviderQP, rnic.QPConfig) (rnic.Endpoint, error) {
	l.t.Error("a QP was made")
	return nil, errors.ErrUnsupported
}
func (l lossy) Connect(context.Context, rnic.Endpoint, string, rnic.ConnParams) error {
	l.t.Error("connected")
	return errors.ErrUnsupported
}
func (l lossy) Listen(rnic.Service, string, string) (rnic.Listener, error) {
	return nil, errors.ErrUnsupported
}

// inbound is a connection request: any use of it fails the test.
type inbound struct{ t *testing.T }

func (inbound) PrivateData() []byte   { return nil }
func (inbound) RemoteAddr() net.Addr  { return nil }
func (inbound) NetConn() net.Conn     { return nil }
func (inbound) IRD() int              { return 0 }
func (inbound) ORD() int              { return 0 }
func (i inbound) Reject([]byte) error { return nil }
func (i inbound) Accept(*rnic.QP, rnic.ConnParams) error {
	i.t.Error("accepted")
	return nil
}

func TestUnreliableProvidersAreRefused(t *testing.T) {
	conformance.Proves(t, "IBU-244", "IBU-058")
	for _, caps := range []rnic.Caps{
		{Provider: "datagrams", Services: 1<<rnic.UC | 1<<rnic.UD},
		{Services: 1<<rnic.RC | 1<<rnic.UC, RDMARead: true}, {Services: 1 << rnic.RC, Reliable: true}, {Services: 1 << rnic.UC, Reliable: true, RDMARead: true},
	} {
		dev := rnic.NewDevice(lossy{t, caps})
		if _, err := Dial(t.Context(), dev, "192.0.2.1:20049", Config{}); !errors.Is(err, ErrUnreliable) {
			t.Errorf("%+v: Dial: %v", caps, err)
		}
		if _, err := Accept(dev, inbound{t}, Config{}); !errors.Is(err, ErrUnreliable) {
			t.Errorf("%+v: Accept: %v", caps, err)
		}
	}
}
