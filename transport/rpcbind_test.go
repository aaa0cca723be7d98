// Registration, against a port mapper of our own.

package transport

import (
	"errors"
	"net"
	"sync"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/conformance"
	"github.com/nfsrdma/nfsrdma/xdr/rpcbind"
)

// mapper is a port mapper that gives each program away once.
func mapper() (*Program, *sync.Mutex, map[rpcbind.Mapping]bool) {
	var mu sync.Mutex
	taken := map[rpcbind.Mapping]bool{}
	change := func(set bool) func(c *Call) error {
		return func(c *Call) error {
			var m rpcbind.Mapping
			m.DecodeXDR(c.Args)
			if err := c.ArgsErr(); err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			if !set {
				for k := range taken {
					if k.Prog == m.Prog && k.Vers == m.Vers {
						delete(taken, k)
					}
				}
			}
			c.Res.Bool(!set || !taken[m])
			if set {
				taken[m] = true
			}
			return nil
		}
	}
	return &Program{Name: "PMAP", Number: 100000, Version: 2, Procs: []Procedure{
		{}, {Name: "SET", Run: change(true)}, {Name: "UNSET", Run: change(false)}}}, &mu, taken
}

func TestPortmap(t *testing.T) {
	conformance.Proves(t, "R8166-181")
	prog, mu, taken := mapper()
	s := NewServer(ServerConfig{}, prog)
	addr, done, err := listenTCP(s, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m, nfs := Portmap{Addr: addr}, &Program{Number: 100003, Version: 3}
	if err := m.Set(bg, 20049, nfs); err != nil {
		t.Errorf("SET: %v", err)
	}
	mu.Lock()
	if !taken[rpcbind.Mapping{Prog: 100003, Vers: 3, Prot: 6, Port: 20049}] {
		t.Errorf("registered: %v", taken)
	}
	mu.Unlock()
	if err := m.Set(bg, 20049, nfs); !errors.Is(err, ErrPortTaken) {
		t.Errorf("SET of what is taken: %v", err)
	}
	if err := m.Unset(bg, nfs, nfs); err != nil {
		t.Errorf("UNSET: %v", err)
	}
	shutdown(t, s, done)
	if len(taken) != 0 {
		t.Errorf("left: %v", taken)
	}
	var ce *ConnectError
	if err := m.Set(bg, 20049, nfs); !errors.As(err, &ce) {
		t.Errorf("SET with no port mapper: %v", err)
	}
	if _, err := net.Dial("tcp", addr); err == nil {
		t.Error("the port mapper still listens")
	}
}
