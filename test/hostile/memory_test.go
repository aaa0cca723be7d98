// The cost of connections for a server in a separate process, and the resources that it still has
// after their end.

package hostile

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/nfsserver/memfs"
	"github.com/nfsrdma/nfsrdma/test/stack/peer"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// serverEnv makes this test binary the server; see TestMain. Its value is plain, or a directory for
// a server with TLS and RPCSEC_GSS.
const (
	serverEnv = "NFSRDMA_TEST_SERVER"
	plain     = "plain"
)

// serveAlone serves until the standard input ends. It writes the addresses for RDMA and TCP. For
// each line of input it then writes the number of goroutines, and the figures of a server with
// security.
func serveAlone() error {
	rules, err := exports.Parse("exports", []byte("/x *(rw,insecure,sec=sys:krb5i)\n"))
	if err != nil {
		return err
	}
	srv, err := nfsserver.New(nfsserver.Options{Exports: []nfsserver.Export{{Name: "/x", FS: memfs.New(memfs.Options{}), Rules: rules.Exports[0]}}})
	if err != nil {
		return err
	}
	cfg := transport.ServerConfig{MaxConns: 20_000, MaxConnsPerHost: 20_000}
	figures := func() []any { return nil }
	if dir := os.Getenv(serverEnv); dir != plain {
		if cfg, figures, err = secured(dir); err != nil {
			return err
		}
	}
	service, err := srv.Start(nfsserver.Listen{RDMA: "127.0.0.1:0", TCP: "127.0.0.1:0", RPC: cfg})
	if err != nil {
		return err
	}
	go nfsserver.ReturnMemory(context.Background(), 500*time.Millisecond)
	fmt.Println(service.RDMAAddr, service.TCPAddr)
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		fmt.Println(append([]any{runtime.NumGoroutine()}, figures()...)...)
	}
	return nil
}

// A lone is a server in a separate process.
type lone struct {
	t         *testing.T
	cmd       *exec.Cmd
	in        io.Writer
	out       *bufio.Reader
	rdma, tcp string
}

// startLone starts a server; mode is the value of serverEnv.
func startLone(t *testing.T, mode string) *lone {
	t.Helper()
	s := &lone{t: t, cmd: exec.Command(os.Args[0])}
	s.cmd.Env = append(os.Environ(), serverEnv+"="+mode)
	s.cmd.Stderr = os.Stderr
	in, err := s.cmd.StdinPipe()
	if err != nil {
		t.Fatalf("StdinPipe: %v", err)
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatalf("StdoutPipe: %v", err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatalf("cmd.Start: %v", err)
	}
	t.Cleanup(func() {
		in.Close()
		s.cmd.Wait()
	})
	s.in, s.out = in, bufio.NewReader(out)
	if _, err := fmt.Fscanln(s.out, &s.rdma, &s.tcp); err != nil {
		t.Fatal(err)
	}
	return s
}

// A cost is the resources of the server's process.
type cost struct {
	resident, peak          int // KB
	descriptors, goroutines int
}

func (c cost) String() string {
	return fmt.Sprintf("%d KB, %d descriptors, %d goroutines", c.resident, c.descriptors, c.goroutines)
}

// cost returns the present cost, and stores further figures of the server in more.
func (s *lone) cost(more ...any) (c cost) {
	s.t.Helper()
	proc := fmt.Sprintf("/proc/%d", s.cmd.Process.Pid)
	status, err := os.ReadFile(proc + "/status")
	if err != nil {
		s.t.Fatalf("os.ReadFile: %v", err)
	}
	kilobytes := func(field string) int {
		_, rest, _ := strings.Cut(string(status), field)
		n, _ := strconv.Atoi(strings.Fields(rest)[0])
		return n
	}
	c.resident, c.peak = kilobytes("VmRSS:"), kilobytes("VmHWM:")
	open, err := os.ReadDir(proc + "/fd")
	if err != nil {
		s.t.Fatalf("os.ReadDir: %v", err)
	}
	c.descriptors = len(open)
	fmt.Fprintln(s.in)
	if _, err := fmt.Fscanln(s.out, append([]any{&c.goroutines}, more...)...); err != nil {
		s.t.Fatal(err)
	}
	return c
}

// connPlan is a connection's allowed cost: figures are in docs/lab/many-connections.md, with room
// here for the garbage of a server that has few connections to share it.
const connPlan = 110 // KB

// memoryCalls is the number of calls on each connection before it waits: enough to use once each
// receive buffer for its credits.
const memoryCalls = 150

// callsAtOnce is the number of calls in flight, within every reply's grant.
const callsAtOnce = 15

// nulls makes a connection's calls and reads their replies, in any order.
func nulls(t *testing.T, call func(xid uint32), reply func() oncrpc.ReplyHeader) {
	t.Helper()
	for range memoryCalls / callsAtOnce {
		waiting := map[uint32]bool{}
		for range callsAtOnce {
			xid := peer.XID()
			waiting[xid] = true
			call(xid)
		}
		for range callsAtOnce {
			h := reply()
			if !waiting[h.XID] || !h.OK() {
				t.Fatalf("got %+v in reply to NULL", h)
			}
			delete(waiting, h.XID)
		}
	}
}

// A batch keeps the written bytes until a caller waits for an answer. One goroutine uses it.
type batch struct {
	net.Conn
	out []byte
}

func (b *batch) Write(p []byte) (int, error) {
	b.out = append(b.out, p...)
	return len(p), nil
}

func (b *batch) Read(p []byte) (int, error) {
	if len(b.out) > 0 {
		if _, err := b.Conn.Write(b.out); err != nil {
			return 0, err
		}
		b.out = b.out[:0]
	}
	return b.Conn.Read(p)
}

// TestConnectionsAreCheapAndGivenBack: waiting connections that have made some calls cost little,
// over RDMA and over TCP. The server releases everything at their end. With NFSRDMA_FULL there are
// 5,000 of each. The race detector keeps notes about all memory, so that with it only descriptors
// and goroutines are counted.
func TestConnectionsAreCheapAndGivenBack(t *testing.T) {
	n := min(some(200, 5000), descriptors*4/5)
	if raceOn {
		n = 40
	}
	for _, over := range []string{"RDMA", "TCP"} {
		t.Run(over, func(t *testing.T) {
			s := startLone(t, plain)
			start := s.cost()
			var ends []io.Closer
			for range n {
				if over == "RDMA" {
					p := peer.Dial(t, s.rdma)
					ends = append(ends, p.C)
					p.Null("a connection") // its reply grants the following calls
					p.C = &batch{Conn: p.C}
					nulls(t, func(xid uint32) { p.Message(peer.Inline(xid, peer.NFS(xid, nfs3.ProcNull, nil))) },
						func() oncrpc.ReplyHeader { return p.Want().RPC })
				} else {
					p := peer.DialTCP(t, s.tcp)
					ends = append(ends, p.C)
					p.C = &batch{Conn: p.C}
					nulls(t, func(xid uint32) { p.Message(peer.NFS(xid, nfs3.ProcNull, nil)) },
						func() oncrpc.ReplyHeader { h, _ := p.Want("a connection"); return h })
				}
			}
			open := s.cost()
			each := (open.resident - start.resident) / n
			t.Logf("start %v; %d connections %v: %d KB each", start, n, open, each)
			if each > connPlan && !raceOn {
				t.Errorf("a connection costs %d KB, want at most %d", each, connPlan)
			}
			for _, c := range ends {
				c.Close()
			}
			for wait := 0; ; wait++ {
				end := s.cost()
				more := end.resident - start.resident
				if (more <= max(10<<10, n*8) || raceOn) && end.descriptors <= start.descriptors+4 && end.goroutines <= start.goroutines+8 {
					t.Logf("closed: %v", end)
					break
				}
				if wait == 600 {
					t.Errorf("a minute after all were closed: %v", end)
					break
				}
				time.Sleep(100 * time.Millisecond)
			}
		})
	}
}
