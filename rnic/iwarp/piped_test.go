// A peer at the other end of a pipe, in simulated time.

package iwarp

import (
	"net"
	"testing"
	"testing/synctest"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rnic/rnictest"
)

// A piped is a connected QP whose program polls its CQ, and a scripted peer.
type piped struct{ *script }

// byPipe runs f with a piped, in simulated time.
func byPipe(t *testing.T, f func(k *piped)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := rnictest.ReadyPipe()
		s := newSide(t, rnic.DeviceConfig{}, 32)
		t.Cleanup(func() { theirs.Close() })
		k := &piped{&script{side: s, t: t, c: theirs}}
		recv(t, s.qp, 1, nil)
		pl := &pipeListener{conns: make(chan net.Conn, 1), done: make(chan struct{})}
		l := s.dev.ListenOn(pl)
		pl.conns <- ours
		k.say(mpa.AppendFrame(nil, &mpa.Frame{CRC: true, Rev: mpa.Rev2, HasEnhanced: true, Enhanced: mpa.Enhanced{IRD: 16, ORD: 16}}))
		r, err := l.Accept(t.Context())
		if err == nil {
			err = r.Accept(s.qp, rnic.ConnParams{})
		}
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
		k.hear(24)
		k.open()
		synctest.Wait()
		f(k)
	})
}
