// The metrics of calls over both transports.

package program

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
)

// scrape returns the metrics, or "" if the server does not answer yet.
func scrape(addr string) string {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Get("http://" + addr + "/metrics")
	if err != nil {
		return ""
	}
	defer res.Body.Close()
	b, _ := io.ReadAll(res.Body)
	return string(b)
}

func TestMetrics(t *testing.T) {
	tcp, rdma, figures := freePort(t), freePort(t), "127.0.0.1:"+freePort(t)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	done := make(chan error)
	go func() {
		_, err := run(ctx, "serve", "--memory", "--state-dir", filepath.Join(t.TempDir(), "state"),
			"--tcp-port", tcp, "--rdma", "iwarp", "--rdma-port", rdma, "--rpcbind", "off", "--metrics-addr", figures, "--log-level", "error")
		done <- err
	}()
	for scrape(figures) == "" && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	for url, how := range map[string]nfsclient.Transport{"nfsrdma://127.0.0.1:" + rdma: nfsclient.RDMA, "nfs://127.0.0.1:" + tcp: nfsclient.TCP} {
		use(t, ctx, url+"/memory", how.String())
	}
	all := scrape(figures)
	for !strings.Contains(all, `nfsrdma_connections{rdma="iwarp",transport="rdma"} 0`+"\n") && ctx.Err() == nil {
		time.Sleep(time.Millisecond) // the server notices the end of a connection after the client
		all = scrape(figures)
	}
	for _, want := range []string{
		`nfsrdma_connections_accepted_total{transport="rdma"} 1`,
		`nfsrdma_connections_accepted_total{transport="tcp"} 1`,
		`nfsrdma_calls_total{procedure="WRITE",program="nfs",transport="rdma"} 1`,
		`nfsrdma_calls_total{procedure="READ",program="nfs",transport="tcp"} 1`,
		`nfsrdma_calls_total{procedure="MNT",program="mount",transport="rdma"} 1`,
		`nfsrdma_connections{rdma="iwarp",transport="rdma"} 0`,
		`nfsrdma_exports 1`, `nfsrdma_mounts 1`, `nfsrdma_rdma_calls_total{chunks="write_list"} 1`, `nfsrdma_rdma_calls_total{chunks="read_list"} 1`,
		`nfsrdma_refusals_total{reason="draining"} 0`, `nfsrdma_locks_held 0`, `nfsrdma_duplicate_calls_total{outcome="replayed"} 0`,
		`nfsrdma_call_errors_total{procedure="LOOKUP",program="nfs",status="NFS3ERR_NOENT",transport="rdma"} 2`,
		`nfsrdma_call_errors_total{procedure="LOOKUP",program="nfs",status="NFS3ERR_NOENT",transport="tcp"} 2`,
		`nfsrdma_call_duration_seconds_count{procedure="READ",program="nfs",transport="rdma"} 1`,
		// The bytes beyond 100,000 of data: status, attributes, count, end of file, length.
		`nfsrdma_result_bytes_total{procedure="READ",program="nfs",transport="rdma"} 100104`,
		`nfsrdma_result_bytes_total{procedure="READ",program="nfs",transport="tcp"} 100104`,
		`nfsrdma_budget_bytes{budget="data"} 2.68435456e+08`,
		`nfsrdma_budget_used_bytes{budget="data"} 0`,
		`nfsrdma_mechanism_decisions_total{mechanism="spin",outcome="won"} `, `nfsrdma_mechanism_decisions_total{mechanism="block",outcome="lost"} `,
		`nfsrdma_mechanism_decisions_total{mechanism="run_on_receiver",outcome="passed"} `,
		"go_goroutines ", "process_open_fds ",
	} {
		if !strings.Contains(all, want+"\n") && !(strings.HasSuffix(want, " ") && strings.Contains(all, want)) {
			t.Errorf("no %s", want)
		}
	}
	if strings.Count(all, `nfsrdma_argument_bytes_total{procedure="WRITE"`) != 2 || strings.Contains(all, `procedure=""`) {
		t.Error("figures of WRITE's arguments are missing, or there are some without a procedure")
	}
	if !strings.Contains(all, `nfsrdma_build_info{goversion="go1.`) {
		t.Error("no build info")
	}
	page, err := os.ReadFile("../../../docs/reference/metrics.md")
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (nfsrdma_\w+) `).FindAllStringSubmatch(all, -1) {
		if !strings.Contains(string(page), "| `"+m[1]+"` |") {
			t.Errorf("docs/reference/metrics.md lacks %s", m[1])
		}
	}
	problems, err := promlint.New(strings.NewReader(all)).Lint()
	if err != nil {
		t.Errorf("Lint: %v", err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("at its end: %v", err)
	}
}

// TestErrorsByStatus: a call that RPC refuses is counted under the name of its RPC status.
func TestErrorsByStatus(t *testing.T) {
	proc := transport.Procedure{Name: "READ"}
	program := transport.Program{Name: "nfs", Number: nfs3.Program, Version: nfs3.Version, Procs: []transport.Procedure{proc}}
	m := newMetrics([]*transport.Program{&program})
	want := map[string]error{
		"GARBAGE_ARGS": transport.ErrGarbageArgs, "AUTH_ERROR": &transport.AuthError{Stat: 5}, "SYSTEM_ERR": io.ErrUnexpectedEOF,
	}
	for _, err := range want {
		m.Call(transport.CallStats{Program: &program, Proc: &proc, Err: err})
	}
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatalf("Gather: %v", err)
	}
	counted := 0
	for _, f := range families {
		if f.GetName() != "nfsrdma_call_errors_total" {
			continue
		}
		for _, metric := range f.GetMetric() {
			for _, l := range metric.GetLabel() {
				if l.GetName() == "status" && want[l.GetValue()] != nil && metric.GetCounter().GetValue() == 1 {
					counted++
				}
			}
		}
	}
	if counted != len(want) {
		t.Errorf("%d statuses of %d are counted", counted, len(want))
	}
}

// use makes a WRITE, a READ, and a call that fails.
func use(t *testing.T, ctx context.Context, url, name string) {
	t.Helper()
	target, err := nfsclient.ParseTarget(url)
	if err != nil {
		t.Fatalf("ParseTarget: %v", err)
	}
	var fsys *nfsclient.FS
	for {
		fsys, _, err = nfsclient.Open(ctx, target, nfsclient.Options{})
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
	defer fsys.Client().Close()
	f, err := fsys.Create(ctx, name, 0o644)
	if err != nil {
		t.Fatalf("Create: %v", err)
	}
	data := make([]byte, 100_000)
	if _, err := f.WriteAt(data, 0); err != nil {
		t.Fatalf("WriteAt: %v", err)
	}
	if _, err := f.ReadAt(data, 0); err != nil {
		t.Fatalf("ReadAt: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Fatalf("f.Close: %v", err)
	}
	if _, err := fsys.Stat(ctx, "nothing"); err == nil {
		t.Error("nothing is there")
	}
}

func TestMetricsRefusals(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("net.Listen: %v", err)
	}
	defer taken.Close()
	for addr, want := range map[string]string{
		taken.Addr().String():   "--metrics-addr " + taken.Addr().String() + " is in use: end the program that has it, or choose another port",
		"24":                    "--metrics-addr 24: must be an address and a port, such as 127.0.0.1:9049",
		"127.0.0.1:":            "must be an address and a port",
		"127.0.0.1:99999":       "must be an address and a port",
		"::1:9049":              "must be an address and a port",
		"nowhere.invalid:9049 ": "must be an address and a port",
		"nowhere.invalid:9049":  "--metrics-addr nowhere.invalid:9049: ",
	} {
		_, err := run(context.Background(), "serve", "--memory", "--ephemeral-key", "--metrics-addr", addr)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "--rdma-port") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", addr, err, want)
		}
	}
}

// TestCallIsCheap: counting a successful or failed call does not allocate.
func TestCallIsCheap(t *testing.T) {
	m, s := cheapCall()
	if n := testing.AllocsPerRun(100, func() { m.Call(s) }); n != 0 {
		t.Errorf("%v allocations for each call", n)
	}
	s.Results = []byte{0, 0, 0, 2}
	m.Call(s)
	if n := testing.AllocsPerRun(100, func() { m.Call(s) }); n != 0 {
		t.Errorf("%v allocations for each call that is refused", n)
	}
}

// cheapCall is a READ over RDMA.
func cheapCall() (*metrics, transport.CallStats) {
	program := transport.Program{Name: "nfs", Number: nfs3.Program, Version: nfs3.Version, Procs: make([]transport.Procedure, 22)}
	program.Procs[nfs3.ProcRead].Name = "READ"
	return newMetrics([]*transport.Program{&program}), transport.CallStats{Program: &program, Proc: &program.Procs[nfs3.ProcRead], Number: nfs3.ProcRead,
		RDMA: true, Took: 90 * time.Microsecond, In: 100, Out: 4096, Offered: rpcrdma.OfferedWrite, Results: make([]byte, 4)}
}

func BenchmarkCall(b *testing.B) {
	m, s := cheapCall()
	b.ReportAllocs()
	for b.Loop() {
		m.Call(s)
	}
}

func BenchmarkCallTogether(b *testing.B) {
	m, s := cheapCall()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			m.Call(s)
		}
	})
}
