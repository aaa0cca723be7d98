// Connections that do nothing, or send very slowly.

package hostile

import (
	"net"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/test/stack/peer"
	"github.com/nfsrdma/nfsrdma/test/stack/rig"
	"github.com/nfsrdma/nfsrdma/transport"
)

const (
	places  = 32 // connections that the flooded servers take
	perConn = 1 << 20
	small   = 8 << 20 // bound for everything else
)

// open makes n connections and sends the same bytes on each. It reads nothing.
func open(t *testing.T, addr string, n int, say []byte) {
	t.Helper()
	for range n {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatalf("net.Dial: %v", err)
		}
		t.Cleanup(func() { c.Close() })
		c.Write(say)
	}
}

// TestHalfOpenConnections: many connections never send a whole Request, send only a Request, or
// make no call over TCP. Their cost is bounded by the number of places. Existing clients stay
// connected, and new clients are served.
func TestHalfOpenConnections(t *testing.T) {
	s, works := rig.Attacked(t, rig.Config{
		Device: rnic.DeviceConfig{MaxHandshakes: 64},
		Server: transport.ServerConfig{MaxConns: places},
	})
	works()
	n := min(some(600, 10000), descriptors*3/5)
	t.Logf("%d connections", n)
	request := mpa.AppendFrame(nil, peer.Request())
	b := newBound(t)
	for what, flood := range map[string]struct {
		addr string
		say  []byte
	}{
		"silent":          {s.RDMA, nil},
		"half a Request":  {s.RDMA, request[:30]},
		"a Request alone": {s.RDMA, request},
		"silent by TCP":   {s.TCP, nil},
		"half a record":   {s.TCP, peer.Mark(1000, true)},
	} {
		open(t, flood.addr, n/5, flood.say)
		works()
		served(t, s)
		b.within(what, places*perConn+small, 64+6*places+n/10)
	}
}

// TestTricklingRequest: a Request sent byte by byte has the same time limit as any other (RFC 5044
// §7.1.2 [R5044-125]).
func TestTricklingRequest(t *testing.T) {
	s, works := rig.Attacked(t, rig.Config{Device: rnic.DeviceConfig{HandshakeTimeout: 3 * time.Second}})
	request := mpa.AppendFrame(nil, peer.Request())
	for range some(2, 10) {
		p := peer.Raw(t, s.RDMA)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			p.C.Read(make([]byte, 1))
		}()
		said := 0
		for ; said < len(request); said++ {
			p.Say(request[said : said+1])
			select {
			case <-ended:
			case <-time.After(300 * time.Millisecond):
				continue
			}
			break
		}
		if said == len(request) {
			t.Error("a Request that took three times as long was waited for, though one is all there is")
		}
		p.C.Close()
		<-ended
	}
	works()
}

// TestTricklingRecord: a record over TCP has a time limit, too, when it is sent byte by byte.
func TestTricklingRecord(t *testing.T) {
	s, works := rig.Attacked(t, rig.Config{Server: transport.ServerConfig{HalfTimeout: time.Second}})
	call := peer.NFS(peer.XID(), 0, nil)
	record := append(peer.Mark(len(call), true), call...)
	p := peer.DialTCP(t, s.TCP)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.C.Read(make([]byte, 1))
	}()
	said := 0
	for ; said < len(record); said++ {
		p.Say(record[said : said+1])
		select {
		case <-ended:
		case <-time.After(100 * time.Millisecond):
			continue
		}
		break
	}
	if said == len(record) {
		t.Error("a record that took over 4 seconds was waited for")
	}
	p.C.Close()
	<-ended
	works()
}
