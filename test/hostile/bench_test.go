// The cost of a flood for the others: the throughput of one client alone, and beside attackers.

package hostile

import (
	"net"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
	"github.com/nfsrdma/nfsrdma/test/stack/peer"
	"github.com/nfsrdma/nfsrdma/test/stack/rig"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// BenchmarkBeside measures 1 MiB READs by a well-behaved client: alone, then beside each kind of
// attacker. Beside any it should have at least half of its throughput alone. Attackers, server and
// client share this process's CPUs, so attackers connect a thousand times a second and no faster.
func BenchmarkBeside(b *testing.B) {
	for _, k := range []struct {
		name   string
		attack func(b *testing.B, s *rig.Server, fh nfs3.FH, stop chan struct{})
	}{
		{"nobody", nil}, {"connections", connections}, {"guesses", guesses}, {"closed-windows", closedWindows}, {"unkept-promises", promises},
	} {
		b.Run(k.name, func(b *testing.B) { beside(b, k.attack) })
	}
}

func beside(b *testing.B, attack func(*testing.B, *rig.Server, nfs3.FH, chan struct{})) {
	s := rig.Start(b, rig.Config{Export: func(fs nfsserver.FS) {
		ref, _, err := fs.Create(nfsserver.Self(), fs.Root(), "large", &nfsserver.SetAttr{Mask: nfsserver.SetMode, Mode: 0o666})
		if err == nil {
			_, err = fs.WriteAt(nfsserver.Self(), ref, pattern(1<<20), 0)
		}
		if err != nil {
			b.Fatal(err)
		}
	}})
	f := s.Mount(b, nfsclient.Options{})
	n, err := f.Client().Lookup(bg, f.Root(), "large")
	if err != nil {
		b.Fatalf("Lookup: %v", err)
	}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		if attack != nil {
			attack(b, s, n.FH, stop)
		}
	}()
	buf := make([]byte, 1<<20)
	b.SetBytes(1 << 20)
	for b.Loop() {
		if m, _, err := f.Client().Read(bg, n.FH, buf, 0); err != nil || m != len(buf) {
			b.Fatal(m, err)
		}
	}
	close(stop)
	<-done
}

// often calls f a thousand times a second until stop.
func often(stop chan struct{}, f func()) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
			f()
		}
	}
}

// connections opens connections, sends half a Request on each, and resets it.
func connections(_ *testing.B, s *rig.Server, _ nfs3.FH, stop chan struct{}) {
	request := mpa.AppendFrame(nil, peer.Request())
	often(stop, func() {
		c, err := net.Dial("tcp", s.RDMA)
		if err != nil {
			return
		}
		c.Write(request[:25])
		c.(*net.TCPConn).SetLinger(0)
		c.Close()
	})
}

// guesses opens connections on which it writes to a guessed STag. The server ends each.
func guesses(b *testing.B, s *rig.Server, _ nfs3.FH, stop chan struct{}) {
	often(stop, func() {
		p := peer.Dial(b, s.RDMA)
		p.FPDU([]byte{0xc1, 0x40, 1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0, 9})
		p.WantEnd("a guess")
		p.C.Close()
	})
}

// closedWindows spends the credits of 20 connections on large READs, and never reads the replies.
func closedWindows(b *testing.B, s *rig.Server, fh nfs3.FH, stop chan struct{}) {
	for range 20 {
		p := peer.Dial(b, s.RDMA)
		p.Null("before")
		asks(p, nfs3.ProcRead, &nfs3.ReadArgs{FH: fh, Count: 1 << 20}, func(h *rpcrdma.Header) {
			h.AddWrite(chunks.Segment{Handle: 5, Length: 1 << 20})
		})
	}
	<-stop
}

// promises offers Read chunks, and never answers the Reads for them.
func promises(b *testing.B, s *rig.Server, fh nfs3.FH, stop chan struct{}) {
	for range 20 {
		p := peer.Dial(b, s.RDMA)
		p.Null("before")
		for range peer.Grant {
			xid := peer.XID()
			stream, pos := peer.Reduced(xid, nfs3.ProcWrite, &nfs3.WriteArgs{FH: fh, Count: 1 << 20, Data: make([]byte, 1<<20)})
			p.Message(append(peer.Header(xid, rpcrdma.ProcMsg, func(h *rpcrdma.Header) { h.Read = one(pos, 5, 1<<20, 0) }), stream...))
		}
	}
	<-stop
}
