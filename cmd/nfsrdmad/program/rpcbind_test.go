// serve and rpcbind, as seen by rpcinfo, in separate namespaces.

package program

import (
	"context"
	"errors"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/transport/portmap"
	"github.com/nfsrdma/nfsrdma/xdr/nlm4"
	"github.com/nfsrdma/nfsrdma/xdr/nsm"
	"github.com/nfsrdma/nfsrdma/xdr/rpcbind"
)

func TestRpcbind(t *testing.T) {
	if !machine.Apart(t, "rpcbind", "rpcinfo") {
		return
	}
	t.Run("serve", servesRpcbind)
	t.Run("ipv4", servesIPv4Alone)
	t.Run("auto", registersWithRpcbind)
}

// served runs serve on a wildcard address. end stops the server and returns its output.
func served(t *testing.T, addr, mode string, more ...string) (end func() string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	type result struct {
		out string
		err error
	}
	done := make(chan result, 1)
	dir := t.TempDir()
	go func() {
		out, err := run(ctx, append([]string{"serve", dir + "=/x", "--addr", addr, "--rdma", "iwarp", "--state-dir", filepath.Join(dir, "state"), "--log-level", "error", "--rpcbind", mode}, more...)...)
		done <- result{out, err}
	}()
	awaitPort(t, "127.0.0.1:2049")
	return func() string {
		cancel()
		r := <-done
		if r.err != nil {
			t.Error(r.err)
		}
		return r.out
	}
}

func awaitPort(t *testing.T, addr string) {
	t.Helper()
	for range 3000 {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			c.Close()
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatal("nobody listens on " + addr)
}

// rpcinfo runs the program rpcinfo, and returns its output without superfluous blanks.
func rpcinfo(t *testing.T, args ...string) string {
	t.Helper()
	// if rpcinfo fails, its output has the error message
	out, _ := exec.Command("rpcinfo", args...).CombinedOutput()
	var b strings.Builder
	for line := range strings.Lines(string(out)) {
		b.WriteString(strings.Join(strings.Fields(line), " ") + "\n")
	}
	return b.String()
}

// awaitInfo waits for the expected output of rpcinfo.
func awaitInfo(t *testing.T, right func(string) bool, args ...string) {
	t.Helper()
	var out string
	for range 3000 {
		if out = rpcinfo(t, args...); right(out) {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Errorf("rpcinfo %s:\n%s", strings.Join(args, " "), out)
}

func has(words ...string) func(string) bool {
	return func(out string) bool {
		for _, w := range words {
			if !strings.Contains(out, w) {
				return false
			}
		}
		return true
	}
}

// TestProgramsInTheWay: if another server has registered a program, the line about it names the
// probable owner and the remedy.
func TestProgramsInTheWay(t *testing.T) {
	taken := func(prog uint32) error {
		return &portmap.ConflictError{Binding: rpcbind.Binding{Prog: prog, Vers: 1, Netid: "tcp"}, Other: "0.0.0.0.189.37"}
	}
	for _, c := range []struct {
		err  error
		want []string
	}{
		{errors.Join(taken(nsm.Program), taken(nsm.Program)), []string{"rpc.statd", "systemctl mask --now rpc-statd", "--locks off", "within 15 s"}},
		{errors.Join(taken(nlm4.Program), taken(nsm.Program)), []string{"nfs-server", "nolock", "--locks off"}},
		{taken(100003), []string{"nfs-server"}},
		{errors.New("rpcbind refuses program 100003 over tcp: root may register it"), nil},
	} {
		line := conflictAdvice(c.err)
		if !has(c.want...)(line) || strings.Contains(line, "\n") || (line == "") != (c.want == nil) {
			t.Errorf("%v: %q", c.err, line)
		}
	}
}

func servesRpcbind(t *testing.T) {
	end := served(t, "::", "serve")
	awaitPort(t, "127.0.0.1:111")
	awaitInfo(t, has("100003 3 tcp 2049 nfs", "100005 3 tcp 2049 mountd", "100000 4 tcp 111", "100000 2 udp 111",
		"100021 4 tcp 2049 nlockmgr", "100024 1 tcp 2049 status", "100024 1 udp 2049 status"), "-p", "127.0.0.1")
	awaitInfo(t, has("100003 3 rdma6 ::.78.81", "100003 3 tcp6 ::.8.1 nfs superuser", "100003 3 tcp 0.0.0.0.8.1"), "127.0.0.1")
	for _, call := range [][]string{{"-T", "udp", "127.0.0.1", "100000", "2"}, {"-T", "udp", "127.0.0.1", "100000", "4"}, {"-T", "tcp", "127.0.0.1", "100003", "3"},
		{"-T", "tcp6", "::1", "100005", "3"}, {"-T", "udp6", "::1", "100000", "3"}, {"-T", "tcp", "127.0.0.2", "100000", "4"},
		{"-T", "tcp", "127.0.0.1", "100021", "4"}, {"-T", "udp6", "::1", "100024", "1"}} {
		awaitInfo(t, has("ready and waiting"), call...)
	}
	// the program is not registered when the server has ended
	awaitInfo(t, has("not registered"), "-T", "tcp", "127.0.0.1", "100099", "4")
	// Only our programs are compared: others on this machine, such as statd, register and
	// unregister.
	if _, err := exec.Command("rpcinfo", "-d", "100003", "3").CombinedOutput(); err == nil {
		t.Error("rpcinfo has taken out what is ours")
	}
	awaitInfo(t, has("100003 3 tcp 2049 nfs"), "-p", "127.0.0.1")
	if out := end(); !strings.Contains(out, "\n  rpcbind: served on [::]:111\n") || !strings.Contains(out, "mount -o vers=3,proto=rdma ") || strings.Contains(out, "nolock") {
		t.Errorf("it said:\n%s", out)
	}
}

// servesIPv4Alone checks a server on 0.0.0.0: all of IPv4 is served, and no socket or registration
// uses IPv6.
func servesIPv4Alone(t *testing.T) {
	end := served(t, "0.0.0.0", "serve", "--metrics-addr", "0.0.0.0:9049")
	awaitPort(t, "127.0.0.1:111")
	awaitInfo(t, func(out string) bool {
		return has("100003 3 tcp 0.0.0.0.8.1", "100003 3 rdma 0.0.0.0.78.81", "100024 1 udp 0.0.0.0.8.1", "100000 2 udp 0.0.0.0.0.111")(out) && !has("tcp6")(out) && !has("udp6")(out) && !has("rdma6")(out)
	}, "127.0.0.1")
	awaitInfo(t, has("ready and waiting"), "-T", "udp", "127.0.0.1", "100024", "1")
	for _, port := range []string{"111", "2049", "20049", "9049"} {
		awaitPort(t, "127.0.0.1:"+port)
		if c, err := net.Dial("tcp", "[::1]:"+port); err == nil {
			c.Close()
			t.Errorf("port %s is served over IPv6", port)
		}
	}
	for _, port := range []string{"111", "2049"} {
		c, err := net.ListenPacket("udp6", "[::]:"+port)
		if err != nil {
			t.Errorf("UDP port %s is taken over IPv6: %v", port, err)
			continue
		}
		c.Close()
	}
	if out := end(); !strings.Contains(out, "\n  TCP:  0.0.0.0:2049,") || !strings.Contains(out, "\n  rpcbind: served on 0.0.0.0:111\n") {
		t.Errorf("it said:\n%s", out)
	}
}

func registersWithRpcbind(t *testing.T) {
	without := served(t, "::", "auto")
	if out := without(); !strings.Contains(out, "\n  rpcbind: none runs here") || !strings.Contains(out, "mountport=2049") {
		t.Errorf("without rpcbind it said:\n%s", out)
	}
	cmd := exec.Command("rpcbind", "-f")
	if err := cmd.Start(); err != nil {
		t.Fatalf("cmd.Start: %v", err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	awaitPort(t, "127.0.0.1:111")
	taken, err := run(context.Background(), "serve", "--memory", "--ephemeral-key", "--rpcbind", "serve", "--tcp-port", "2050", "--rdma-port", "0")
	if err == nil || !strings.Contains(err.Error(), "--rpcbind auto") {
		t.Errorf("beside an rpcbind: %s, %v", taken, err)
	}
	end := served(t, "::", "auto")
	awaitInfo(t, has("100003 3 tcp 2049 nfs", "100005 3 tcp 2049 mountd", "100227 3 tcp 2049", "100021 4 tcp 2049 nlockmgr", "100024 1 udp 2049 status"), "-p", "127.0.0.1")
	awaitInfo(t, has("100003 3 rdma6 ::.78.81", "100003 3 tcp6 ::.8.1 nfs"), "127.0.0.1")
	if out := end(); !strings.Contains(out, "\n  rpcbind: registered\n") || strings.Contains(out, "mountport") || strings.Contains(out, "nolock") {
		t.Errorf("it said:\n%s", out)
	}
	awaitInfo(t, func(out string) bool {
		return has("100000 4 tcp 111")(out) && !has("100003")(out) && !has("100005")(out) && !has("100227")(out) && !has("100021")(out) && !has("100024")(out)
	}, "-p", "127.0.0.1")
}
