// nfsrdma top on a server under load, through its control socket and its metrics.

package program

import (
	"bytes"
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/top"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// report returns the next report from a source.
func report(t *testing.T, s *top.Source) *top.Report {
	t.Helper()
	var b bytes.Buffer
	if err := top.Lines(context.Background(), &b, &top.Options{Source: s, Interval: 50 * time.Millisecond, Count: 1, JSON: true, Order: "calls"}); err != nil {
		t.Fatalf("Lines: %v", err)
	}
	var r top.Report
	must.Succeed(t, json.Unmarshal(b.Bytes(), &r))
	return &r
}

// operation returns an operation's row in a report, or nil if the operation was not called.
func operation(r *top.Report, procedure, transport string) *top.Operation {
	for i := range r.Operations {
		if o := &r.Operations[i]; o.Procedure == procedure && o.Transport == transport {
			return o
		}
	}
	return nil
}

func TestTop(t *testing.T) {
	dir := t.TempDir()
	tcp, rdma, figures, socket := freePort(t), freePort(t), "127.0.0.1:"+freePort(t), filepath.Join(dir, "control")
	defer serveArgs(t, "serve", "--memory", "--rdma", "iwarp", "--rdma-port", rdma, "--tcp-port", tcp, "--control", socket, "--state-dir", filepath.Join(dir, "state"),
		"--rpcbind", "off", "--log-level", "panic", "--metrics-addr", figures)()
	dialServe(t, "127.0.0.1:"+tcp).Close()
	awaitControl(t, socket)
	over := map[string]*nfsclient.FS{
		"tcp":  mounted(t, "127.0.0.1:"+tcp, "/memory", nfsclient.Options{Transport: nfsclient.TCP}),
		"rdma": mounted(t, "127.0.0.1:"+rdma, "/memory", nfsclient.Options{}),
	}
	remote, err := top.Remote(figures)
	if err != nil {
		t.Fatalf("Remote: %v", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var load sync.WaitGroup
	defer load.Wait()
	defer stop()
	// each number belongs to one goroutine until load has ended
	written := map[string]*int{"tcp": new(int), "rdma": new(int)}
	for name, f := range over {
		load.Go(func() {
			data := make([]byte, 64<<10)
			for ctx.Err() == nil {
				if err := f.WriteFile(context.Background(), name, data, 0o644); err != nil {
					t.Errorf("WriteFile: %v", err)
					return
				}
				*written[name]++
				_, _ = f.Stat(context.Background(), "nothing")
			}
		})
	}
	for _, source := range []*top.Source{top.Local(socket), remote} {
		local := source != remote
		for begin := time.Now(); ; {
			r := report(t, source)
			w, l := operation(r, "WRITE", "rdma"), operation(r, "LOOKUP", "tcp")
			clients := 0
			for _, c := range r.Clients {
				if c.Calls > 0 && c.In > 0 && len(c.Exports) == 1 && (c.Transport == overTCP || c.Credits > 0) {
					clients++
				}
			}
			if w != nil && w.Calls > 0 && w.In > 65536*w.Calls && w.Mean > 0 && w.P99 > 0 && w.Queue > 0 && w.Errors == 0 && l != nil && l.Errors > 0 &&
				r.Calls > w.Calls && r.Memory > 0 && r.Connections["iwarp"] == 1 && r.Credits > 0 && !r.Restarted && (clients == 2) == local {
				break
			}
			if time.Since(begin) > time.Minute {
				t.Fatalf("local %v: %d clients, %+v", local, clients, r)
			}
		}
	}
	stop()
	load.Wait()
	for _, source := range []*top.Source{top.Local(socket), remote} {
		now, err := source.Read(context.Background())
		if err != nil {
			t.Fatalf("source.Read: %v", err)
		}
		for name, n := range written {
			if got := now.Figures.Sum("nfsrdma_calls_total", "procedure", "WRITE", "transport", name); got != float64(*n) || *n == 0 {
				t.Errorf("%v WRITEs over %s, want %d", got, name, *n)
			}
		}
	}
}

// TestTopWithoutMetrics: the control socket has the metrics even without --metrics-addr.
func TestTopWithoutMetrics(t *testing.T) {
	dir := t.TempDir()
	socket, tcp := filepath.Join(dir, "control"), freePort(t)
	defer serveArgs(t, "serve", "--memory", "--rdma-port", "0", "--tcp-port", tcp, "--control", socket, "--state-dir", filepath.Join(dir, "state"), "--rpcbind", "off", "--log-level", "panic")()
	dialServe(t, "127.0.0.1:"+tcp).Close()
	awaitControl(t, socket)
	mounted(t, "127.0.0.1:"+tcp, "/memory", nfsclient.Options{Transport: nfsclient.TCP})
	now, err := top.Local(socket).Read(context.Background())
	if err != nil || now.Figures.Sum("nfsrdma_calls_total", "procedure", "MNT") != 1 || now.Figures.Sum("nfsrdma_exports") != 1 {
		t.Errorf("%v, %v", now, err)
	}
	none, err := top.Remote("127.0.0.1:" + tcp)
	if err != nil {
		t.Fatalf("Remote: %v", err)
	}
	if _, err := none.Read(context.Background()); err == nil || !strings.Contains(err.Error(), "--metrics-addr") {
		t.Errorf("none.Read: %v, want %q", err, "--metrics-addr")
	}
}
