// One host that takes all the connections it can get.

package hostile

import (
	"testing"

	"github.com/nfsrdma/nfsrdma/test/stack/peer"
	"github.com/nfsrdma/nfsrdma/test/stack/rig"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// TestConnectionsOfOneHost: the server cannot end connections in use. A host with a call on each of
// its connections could therefore keep all others out. It gets its share and no more.
func TestConnectionsOfOneHost(t *testing.T) {
	const share = places / 4
	s, works := rig.Attacked(t, rig.Config{Server: transport.ServerConfig{MaxConns: places, MaxConnsPerHost: share}})
	works()
	got := 0
	for range 2 * places {
		c := peer.DialTCPFrom(t, "127.0.0.2", s.TCP)
		c.Message(peer.NFS(peer.XID(), nfs3.ProcNull, nil))
		if _, err := c.Next(); err == nil {
			got++
		}
	}
	if got != share {
		t.Errorf("one host has %d connections, its share is %d", got, share)
	}
	works()
	served(t, s)
}
