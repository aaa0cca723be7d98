// A server with few file descriptors: its messages, its refusals, and its survival.

package program

import (
	"bufio"
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp"
	"github.com/nfsrdma/nfsrdma/transport"
	"golang.org/x/sys/unix"
)

// childEnv makes TestServeChild run nfsrdmad with the arguments in the variable, one per line.
const childEnv = "NFSRDMA_TEST_SERVE"

// TestServeChild is a server in a separate process; it tests nothing.
func TestServeChild(t *testing.T) {
	args := os.Getenv(childEnv)
	if args == "" {
		return
	}
	root := newRoot()
	root.SetArgs(strings.Split(args, "\n"))
	if err := root.Execute(); err != nil {
		os.Stderr.WriteString(err.Error())
		os.Exit(1)
	}
	os.Exit(0)
}

// A few is a server with few descriptors, with its addresses.
type few struct {
	*testing.T
	tcp, rdma string
	end       func() (log string)
}

func startFew(t *testing.T, ulimit string, args ...string) *few {
	t.Helper()
	tcp, rdma := freePort(t), freePort(t)
	// RoCE and rpcbind exist once per machine. With them, another test's server could cause a
	// warning, which would be an extra line.
	args = append([]string{"serve", t.TempDir() + "=/x", "--ephemeral-key", "--no-root-squash", "--tcp-port", tcp, "--rdma-port", rdma, "--rdma", "iwarp", "--rpcbind", "off"}, args...)
	cmd := exec.Command("sh", "-c", ulimit+`; exec "$0" -test.run='^TestServeChild$'`, os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+strings.Join(args, "\n"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var log strings.Builder
	cmd.Stderr = &log
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatalf("StdoutPipe: %v", err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("cmd.Start: %v", err)
	}
	f := &few{T: t, tcp: "127.0.0.1:" + tcp, rdma: "127.0.0.1:" + rdma}
	f.end = func() string {
		cmd.Process.Signal(os.Interrupt)
		cmd.Wait()
		return log.String()
	}
	t.Cleanup(func() { f.end() })
	lines := bufio.NewScanner(out)
	for lines.Scan() { // reads up to the last line at the start
		if strings.Contains(lines.Text(), "proto=tcp") {
			return f
		}
	}
	t.Fatalf("the server ended: %s", f.end())
	return nil
}

// connect returns a connection after a successful call, or nil if the connection was refused.
func (f *few) connect(rdma bool) *transport.Client {
	f.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cfg := transport.ClientConfig{MaxRetries: -1, CallTimeout: time.Minute}
	var c *transport.Client
	var err error
	if rdma {
		// A start-up that hangs must not count as a refused one.
		c, err = transport.DialRDMA(ctx, iwarp.Open(rnic.DeviceConfig{HandshakeTimeout: time.Minute}), f.rdma, cfg)
	} else {
		c, err = transport.DialTCP(ctx, f.tcp, cfg)
	}
	if err == nil {
		null := transport.Proc{Prog: 100003, Vers: 3, Name: "NULL"}
		if err = c.Call(ctx, &null, nil, nil, nil, 0); err == nil {
			return c
		}
		c.Close()
	}
	var ne net.Error
	if ctx.Err() != nil || errors.As(err, &ne) && ne.Timeout() {
		f.Fatalf("neither served nor refused: %v", err)
	}
	return nil
}

// crowd connects n times, alternating TCP and RDMA, and returns the served connections.
func (f *few) crowd(n int) (served []*transport.Client) {
	f.Helper()
	for i := range n {
		if c := f.connect(i%2 == 1); c != nil {
			served = append(served, c)
			f.Cleanup(func() { c.Close() })
		}
	}
	return served
}

// works writes a file over c's connection, and checks that all connections in all still answer.
func (f *few) works(c *nfsclient.Client, all []*transport.Client) {
	f.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	fsys, err := c.Mount(ctx, "/x")
	if err != nil {
		f.Fatalf("Mount: %v", err)
	}
	if err := fsys.Mkdir(ctx, "d"+filepath.Base(f.TempDir()), 0o777); err != nil {
		f.Errorf("MKDIR while there are no descriptors for connections: %v", err)
	}
	for i, c := range all {
		null := transport.Proc{Prog: 100003, Vers: 3, Name: "NULL"}
		if err := c.Call(ctx, &null, nil, nil, nil, 0); err != nil {
			f.Fatalf("connection %d of %d: %v", i, len(all), err)
		}
	}
}

// checkLog checks that the log has the line atStart once, and otherwise only lines with a text in
// often.
func (f *few) checkLog(log string, atStart string, often ...string) {
	f.Helper()
	if n := strings.Count(log, atStart); n != 1 {
		f.Errorf("%q stands %d times in the log:\n%s", atStart, n, log)
	}
	for line := range strings.Lines(log) {
		known := false
		for _, text := range append(often, atStart, "level=info") {
			known = known || strings.Contains(line, text)
		}
		if !known {
			f.Errorf("strange line: %s", line)
		}
	}
	for _, text := range often {
		if !strings.Contains(log, text) {
			f.Errorf("no line has %q:\n%s", text, log)
		}
	}
}

// TestFewDescriptors: connections are limited by the available descriptors, and refused immediately
// beyond the limit.
func TestFewDescriptors(t *testing.T) {
	f := startFew(t, "ulimit -n 256", "--max-conns-per-host", "1000")
	first, err := nfsclient.Dial(context.Background(), f.tcp, nfsclient.Options{Transport: nfsclient.TCP})
	if err != nil {
		t.Fatalf("Dial: %v", err)
	}
	defer first.Close()
	served := f.crowd(110)
	if n := len(served); n > 96 || n < 80 {
		t.Errorf("%d connections are served, want 96 at most and nearly as many", n)
	}
	f.works(first, served)
	f.checkLog(f.end(), "the limit of 256 file descriptors leaves room for 96 connections", "connection refused: there are too many")
}

// TestNoDescriptors: the requested limit exceeds the possible one; connections beyond the possible
// limit are refused nevertheless, and existing connections continue.
func TestNoDescriptors(t *testing.T) {
	f := startFew(t, "ulimit -n 256", "--max-conns", "1000", "--max-conns-per-host", "1000")
	first, err := nfsclient.Dial(context.Background(), f.tcp, nfsclient.Options{Transport: nfsclient.TCP})
	if err != nil {
		t.Fatalf("Dial: %v", err)
	}
	defer first.Close()
	served := f.crowd(280)
	if n := len(served); n > 250 || n < 150 {
		t.Errorf("%d connections are served", n)
	}
	for _, c := range served[:40] {
		c.Close()
	}
	var again *transport.Client
	for end := time.Now().Add(5 * time.Minute); again == nil && time.Now().Before(end); {
		// the server notices only after a moment that other connections have gone
		again = f.connect(true)
	}
	if again == nil {
		t.Error("refused though others have left")
	} else {
		again.Close()
	}
	f.works(first, served[40:])
	f.checkLog(f.end(), "--max-conns 1000 is more than the limit of 256 file descriptors", "connection refused: there are no file descriptors left")
}

// TestDescriptorsAreRaised: the soft limit is raised to the hard one.
func TestDescriptorsAreRaised(t *testing.T) {
	var lim unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &lim); err != nil || lim.Max < 3000 {
		t.Skipf("a hard limit of %d", lim.Max)
	}
	f := startFew(t, "ulimit -Sn 64; ulimit -Hn 3000")
	if log := f.end(); strings.Contains(log, "descriptors") {
		t.Errorf("log: %s", log)
	}
	f = startFew(t, "ulimit -Sn 64; ulimit -Hn 300")
	// 112 of 299, because Go sets the soft limit to one less than the hard limit
	f.checkLog(f.end(), "file descriptors leaves room for 11")
}

func TestFit(t *testing.T) {
	for _, c := range []struct {
		given             string
		conns, handshakes int
		descriptors       uint64
		wantC, wantH      int
		line              string
	}{
		{"", 1024, 256, 2560, 1024, 256, ""}, {"", 1024, 256, 1 << 63, 1024, 256, ""},
		{"", 1024, 256, 2558, 1023, 256, "room for 1023"}, {"", 1024, 256, 1024, 384, 128, "room for 384"}, {"", 1024, 256, 2, 1, 1, "room for 1 "},
		{"max-conns", 100, 256, 256, 100, 32, "--max-conns 100"}, {"max-conns", 90, 256, 256, 90, 32, ""},
		{"max-handshakes", 1024, 100, 256, 28, 100, "room for 28"}, {"max-handshakes", 1024, 200, 256, 1, 200, "room for 1 "},
	} {
		m := limits{conns: c.conns, handshakes: c.handshakes, given: func(f string) bool { return f == c.given }}
		line := m.fit(c.descriptors)
		if m.conns != c.wantC || m.handshakes != c.wantH || (line == "") != (c.line == "") || !strings.Contains(line, c.line) {
			t.Errorf("%+v: %d, %d, %q", c, m.conns, m.handshakes, line)
		}
	}
}
