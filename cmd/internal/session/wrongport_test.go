// Ports that serve another protocol.

package session

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/cli"
	"github.com/nfsrdma/nfsrdma/cmd/internal/portprobe"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/transport"
)

// Connecting ends as soon as the probe recognizes another service on the port, without waiting for
// the time limit.
func TestConnectingToAWrongPortEnds(t *testing.T) {
	_, tcp := serve(t)
	target, err := nfsclient.ParseTarget("nfsrdma://" + strings.TrimPrefix(tcp, "nfs://") + "/x")
	if err != nil {
		t.Fatalf("ParseTarget: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	found := probeLate(ctx, cancel, target)
	<-ctx.Done()
	if hint, sure := found(); !sure || !strings.Contains(hint, "ONC RPC over TCP") {
		t.Errorf("%q, %v", hint, sure)
	}
}

// TestRefusedPorts: if the host serves NFS over the other transport at the usual port, the error
// says so, with the path that would work.
func TestRefusedPorts(t *testing.T) {
	rdma, tcp := serve(t)
	rdma, tcp = strings.TrimPrefix(rdma, "nfsrdma://"), strings.TrimPrefix(tcp, "nfs://")
	nobody := fmt.Sprint("127.0.0.1:", machine.Port(t))
	const asked = "connection refused: "
	const alone = "nothing listens on h:7: start the server, or give its port; nfsrdmad without --addr listens on 127.0.0.1 only"
	for _, c := range []struct{ arg, usual, listens, want string }{
		{"nfsrdma://h:7/e", "h:2049", tcp, "the host serves NFS over TCP: use nfs://h/e, or have the server serve RDMA"},
		{"nfs://h:7/e", "h:20049", rdma, "the host serves NFS over RDMA: use nfsrdma://h/e, or have the server serve TCP"},
		{"nfsrdma://h:7/e", "h:2049", nobody, alone},
		{"nfs://h:7/e", "h:20049", nobody, alone},
		{"nfsrdma://h:7/e", "h:2049", rdma, alone},
		{"nfs://127.0.0.1:7/e", "127.0.0.1:20049", nobody, "nothing listens on 127.0.0.1:7: start the server, or give its port"},
	} {
		dialInstead(t, c.usual, c.listens)
		s := &Session{}
		target, err := s.Target(c.arg)
		if err != nil {
			t.Fatalf("Target: %v", err)
		}
		err = s.explainConnect(t.Context(), target, new(limit), "", &transport.ConnectError{Service: "nfs", Err: syscall.ECONNREFUSED})
		if got := err.Error(); got != c.arg+": "+asked+c.want {
			t.Errorf("%s, with %s at %s: %q", c.arg, c.listens, c.usual, got)
		}
	}
}

// dialInstead redirects the probe of addr to other, a port that no other process uses.
func dialInstead(t *testing.T, addr, other string) {
	was := dialPort
	dialPort = func(ctx context.Context, network, to string) (net.Conn, error) {
		if to != addr {
			t.Errorf("%s is looked at, not %s", to, addr)
		}
		return new(net.Dialer).DialContext(ctx, network, other)
	}
	t.Cleanup(func() { dialPort = was })
}

// A closingProbe reports that a connection of the probe has been closed.
type closingProbe struct {
	net.Conn
	ended func()
}

func (c closingProbe) Close() error {
	defer c.ended()
	return c.Conn.Close()
}

// TestServerThatHangsUpIsWaitedFor: a server that closes connections may be starting. So the
// probe's result does not end the attempt to connect.
func TestServerThatHangsUpIsWaitedFor(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("net.Listen: %v", err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 1))
			c.Close()
		}
	}()
	looked := make(chan struct{}, 100)
	was := dialPort
	dialPort = func(ctx context.Context, network, to string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, l.Addr().String())
		return closingProbe{c, func() { looked <- struct{}{} }}, err
	}
	defer func() { dialPort = was }()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	kind := portprobe.Identify(ctx, portprobe.Wait, dialPort, "h:2049", portprobe.Unknown).Kind
	looks := len(looked) // how many connections one probe makes
	if kind != portprobe.Closes || looks == 0 {
		t.Fatalf("%v after %d connections", kind, looks)
	}
	found := probeLate(ctx, cancel, nfsclient.Target{Transport: nfsclient.TCP, Host: "h", Path: "/e"})
	for range 2 * looks { // including the first probe's
		<-looked
	}
	if _, sure := found(); sure || ctx.Err() != nil {
		t.Errorf("%v, %v, want a guess at most", sure, ctx.Err())
	}
}

// TestInterruptedConnectionIsNotExplained: the user has ended the wait, so no explanation follows.
func TestInterruptedConnectionIsNotExplained(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	gone := &transport.ConnectError{Service: "nfs", Err: context.Canceled}
	if err := new(Session).explainConnect(ctx, nfsclient.Target{Host: "h", Path: "/e"}, new(limit), "", gone); err == nil || err.Error() != gone.Error() {
		t.Errorf("%v", err)
	}
}

// TestReportedOnce: an error that a command has reported gets no second line, and an output error
// ends the command.
func TestReportedOnce(t *testing.T) {
	rdma, _ := serve(t)
	var stderr strings.Builder
	s := &Session{Stderr: &stderr, Flags: Flags{NConnect: 1, CRC: "on", ConnectTimeout: time.Minute}}
	defer s.Close()
	rep := cli.NewReporter(&stderr, "test", nil)
	args := []string{rdma + "/mem", rdma + "/mem"}
	done := 0
	err := s.EachOperand(t.Context(), rep, "what", args, func(Operand) error { done++; return cli.ErrReported })
	if err != nil || done != 2 || stderr.Len() > 0 {
		t.Errorf("%v, %d operands, %q", err, done, &stderr)
	}
	full := cli.NewOutput(fullDisk{}, nil)
	err = s.EachOperand(t.Context(), rep, "what", args, func(Operand) error {
		done++
		_, err := full.Write([]byte("x"))
		return err
	})
	var output *cli.OutputError
	if !errors.As(err, &output) || done != 3 || stderr.Len() > 0 {
		t.Errorf("%v, %d operands, %q", err, done, &stderr)
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, syscall.ENOSPC }
