// A Registrar with Debian's rpcbind, in a network namespace: each machine has one port and one
// socket.

package portmap

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/xdr/rpcbind"
)

// startRpcbind starts rpcbind and waits until it answers.
func startRpcbind(t *testing.T, options ...string) (end func()) {
	t.Helper()
	cmd := exec.Command("rpcbind", append(options, "-f")...)
	if err := cmd.Start(); err != nil {
		t.Fatalf("Start: %v", err)
	}
	end = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		os.Remove(rpcbindSocket)
	}
	for range 6000 {
		c, err := net.Dial("tcp", "127.0.0.1:111")
		if err == nil {
			c.Close()
			return end
		}
		time.Sleep(100 * time.Millisecond)
	}
	end()
	t.Fatal("rpcbind does not answer")
	return nil
}

// registered returns rpcbind's registrations of a program.
func registered(t *testing.T, prog uint32) (all []string) {
	t.Helper()
	var list rpcbind.ListRes
	ask(t, "127.0.0.1:111").call(4, rpcbind.ProcDump, none{}, &list)
	for _, b := range list.Bindings {
		if b.Prog == prog {
			all = append(all, b.Netid+" "+b.Addr)
		}
	}
	slices.Sort(all)
	return all
}

// awaitRegistered waits until rpcbind has the wanted registrations of a program.
func awaitRegistered(t *testing.T, prog uint32, want ...string) {
	t.Helper()
	for range 6000 {
		if slices.Equal(registered(t, prog), want) {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Errorf("%d is registered as %q, want %q", prog, registered(t, prog), want)
}

// TestRpcbind: registrations are made before rpcbind starts, after it restarts, and in conflict
// with another server.
func TestRpcbind(t *testing.T) {
	if !machine.Apart(t, "rpcbind") {
		return
	}
	const every = 50 * time.Millisecond
	ctx := context.Background()
	list := Bindings(100003, 3, "tcp", netip.MustParseAddrPort("[::]:2049"))
	list = append(list, Bindings(100003, 3, "rdma", netip.MustParseAddrPort("[::]:20049"))...)
	all := []string{"rdma 0.0.0.0.78.81", "rdma6 ::.78.81", "tcp 0.0.0.0.8.1", "tcp6 ::.8.1"}

	// No rpcbind at first; then one, which is killed, and another.
	r, err := register(ctx, list, rpcbindSocket, every)
	if !errors.Is(err, ErrNone) {
		t.Errorf("without rpcbind: %v", err)
	}
	for range 2 {
		end := startRpcbind(t)
		awaitRegistered(t, 100003, all...)
		end()
	}
	end := startRpcbind(t)
	defer end()
	awaitRegistered(t, 100003, all...)
	if err := r.Close(ctx); err != nil {
		t.Errorf("Close: %v", err)
	}
	awaitRegistered(t, 100003)

	// Over loopback, without a socket.
	r, err = register(ctx, list, filepath.Join(t.TempDir(), "none"), time.Hour)
	if err != nil {
		t.Errorf("register: %v", err)
	}
	awaitRegistered(t, 100003, all...)

	// A conflicting server: a live one keeps its registration, a dead one loses it.
	var conflict *ConflictError
	l, err := net.Listen("tcp", "127.0.0.1:2049")
	if err != nil {
		t.Fatalf("net.Listen: %v", err)
	}
	second := Bindings(100003, 3, "tcp", netip.MustParseAddrPort("0.0.0.0:2050"))
	r2, err := register(ctx, second, rpcbindSocket, time.Hour)
	if !errors.As(err, &conflict) || !strings.Contains(err.Error(), "port 2049") {
		t.Errorf("beside another server: %v", err)
	}
	if err := r2.Close(ctx); err != nil {
		t.Errorf("Close: %v", err)
	}
	awaitRegistered(t, 100003, all...)
	l.Close()
	if r2, err = register(ctx, second, rpcbindSocket, time.Hour); err != nil {
		t.Errorf("in place of a server that is gone: %v", err)
	}
	// The dead server's other registrations stay for it to remove.
	awaitRegistered(t, 100003, "rdma 0.0.0.0.78.81", "rdma6 ::.78.81", "tcp 0.0.0.0.8.2", "tcp6 ::.8.1")
	if err := r2.Close(ctx); err != nil {
		t.Errorf("Close: %v", err)
	}
	if err := r.Close(ctx); err != nil {
		t.Errorf("Close: %v", err)
	}
	awaitRegistered(t, 100003)
}
