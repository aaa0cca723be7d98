// The command: its flags, its arguments for nfsrdma, and one run of milliseconds on our own server.

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestSettings(t *testing.T) {
	for _, c := range []struct {
		config config
		groups string
		want   string
	}{
		{config{}, strings.Join(groupNames(), " "), "5 500ms"},
		{config{quick: true}, strings.Join(quickGroups, " "), "3 200ms"},
		// in the order of the table
		{config{rows: "tail,data", rounds: 2, duration: time.Second}, "data tail", "2 1s"},
		{config{rows: "nonsense"}, "", "-rows nonsense: there are data, "},
		{config{rounds: -1}, "", "-rounds and -duration have to be more than 0"},
		{config{place: "apart,wire"}, strings.Join(groupNames(), " "), "5 500ms"},
		{config{place: "nowhere"}, "", "-place nowhere: there are shared, "},
		{config{against: "HEAD"}, "small smalltcp data beside list", "5 500ms"},
		{config{against: "HEAD", quick: true, rows: "mount,data"}, "data mount", "3 200ms"},
		{config{against: "HEAD", rows: "tail"}, "", "-rows tail: there are small, "},
		{config{duration: -1}, "", "-rounds and -duration have to be more than 0"},
	} {
		chosen, err := c.config.settle()
		var names []string
		for _, g := range chosen {
			names = append(names, g.name)
		}
		got := strconv.Itoa(c.config.rounds) + " " + c.config.duration.String()
		if err != nil {
			got, names = err.Error(), nil
		}
		if !strings.HasPrefix(got, c.want) || strings.Join(names, " ") != c.groups {
			t.Errorf("%+v: %q %q, want %q %q", c.config, got, names, c.want, c.groups)
		}
	}
	for quick, most := range map[bool]time.Duration{true: 5 * time.Minute, false: 15 * time.Minute} {
		if c := (config{quick: quick}); c.limit() > most {
			t.Errorf("%v is more than %v", c.limit(), most)
		}
	}
}

func TestCPUsAreParsed(t *testing.T) {
	if set, err := parseCPUs("0,3"); err != nil || set.Count() != 2 || !set.IsSet(0) || !set.IsSet(3) {
		t.Errorf("%v, %v", set, err)
	}
	for _, s := range []string{"", "a", "0-1", "-1", "1024"} {
		if _, err := parseCPUs(s); err == nil {
			t.Errorf("%q is taken", s)
		}
	}
}

// TestArguments: the arguments for nfsrdma bench follow from the job.
func TestArguments(t *testing.T) {
	b := &bed{base: "/b", config: config{duration: time.Second}, ours: &server{pid: 7, rdma: "127.0.0.1:1", tcp: "127.0.0.1:2", export: "/bench"}}
	if _, err := b.args(job{target: ganesha}); !errors.Is(err, errNoGanesha) {
		t.Errorf("%v", err)
	}
	if got := b.targets(ganesha, rdma); !slices.Equal(got, []target{rdma}) {
		t.Errorf("%v", got)
	}
	b.ganesha = &server{pid: 8, tcp: "127.0.0.1:3", export: "/dir/x", mountPort: "4"}
	const size = " --size 134217728"
	for _, c := range []struct {
		job  job
		want string
	}{
		{job{target: rdma, tests: "read", depth: 8}, "/b/nfsrdma bench --json --crc on --tests read" + size + " --depth 8 --duration 1s --server-pid 7 --no-raw nfsrdma://127.0.0.1:1/bench"},
		{job{target: rdmaOff, tests: "null", raw: true, dir: "d"}, "/b/nfsrdma bench --json --crc off --tests null" + size + " --depth 1 --duration 1s --server-pid 7 nfsrdma://127.0.0.1:1/bench/d"},
		{job{target: tcp, tests: "read", conns: 4, block: 4096, time: time.Minute}, "/b/nfsrdma bench --json --crc on --tests read" + size + " --depth 1 --duration 1m0s --server-pid 7 --nconnect 4 --block 4096 --no-raw nfs://127.0.0.1:2/bench"},
		{job{target: roce, tests: "read", size: 8 << 20}, "/b/nfsrdma bench --json --crc on --tests read --size 8388608 --depth 1 --duration 1s --server-pid 7 --rdma roce --no-raw nfsrdma://127.0.0.1:1/bench"},
		{job{target: roceLossy, tests: "read"}, "/b/nfsrdma bench --json --crc on --tests read" + size + " --depth 1 --duration 1s --server-pid 7 --rdma roce --lose 1 --no-raw nfsrdma://127.0.0.1:1/bench"},
		{job{target: ganesha, tests: "read"}, "/b/nfsrdma bench --json --crc on --tests read" + size + " --depth 1 --duration 1s --server-pid 8 --mount-port 4 --no-raw nfs://127.0.0.1:3/dir/x"},
		{job{target: tcp, tests: "read", raw: true, prefix: []string{"in", "ns"}, host: "10.0.0.1", peer: "10.0.0.1:9"},
			"in ns /b/nfsrdma bench --json --crc on --tests read" + size + " --depth 1 --duration 1s --server-pid 7 --raw-peer 10.0.0.1:9 nfs://10.0.0.1:2/bench"},
	} {
		got, err := b.args(c.job)
		if err != nil || strings.Join(got, " ") != c.want {
			t.Errorf("%v\n%s\n%s", err, strings.Join(got, " "), c.want)
		}
	}
	b.client, b.peer = []string{"taskset", "-c", "1"}, "127.0.0.1:9"
	other := &server{programs: "/other", pid: 9, rdma: "127.0.0.1:5", export: "/bench"}
	got, err := b.args(job{target: rdma, server: other, tests: "null", raw: true})
	if err != nil {
		t.Fatalf("args: %v", err)
	}
	want := "taskset -c 1 /other/nfsrdma bench --json --crc on --tests null" + size + " --depth 1 --duration 1s --server-pid 9 --raw-peer 127.0.0.1:9 nfsrdma://127.0.0.1:5/bench"
	if joined := strings.Join(got, " "); joined != want {
		t.Errorf("got  %s\nwant %s", joined, want)
	}
}

// TestSmoke: a run for some milliseconds measures the rows of our own server, in a separate
// process, and leaves no file behind.
func TestSmoke(t *testing.T) {
	dir := t.TempDir()
	c := config{dir: dir, rounds: 1, duration: 5 * time.Millisecond}
	b, err := newBed(t.Context(), c)
	if err != nil {
		t.Fatalf("newBed: %v", err)
	}
	defer b.close()
	if err := b.round(t.Context(), "data", job{tests: "read", depth: 2, raw: true}, rdma, tcp, ganesha); err != nil {
		t.Fatalf("round: %v", err)
	}
	if err := b.measureList(t.Context()); err != nil {
		t.Fatalf("measureList: %v", err)
	}
	for _, key := range []string{"data/read/rdma", "data/read/tcp", "data/raw/readcrc", "list/readdirplus/rdma"} {
		if v := b.samples[key]; len(v) != 1 || v[0] <= 0 {
			t.Errorf("%s: %v", key, v)
		}
	}
	if b.samples["data/read/ganesha"] != nil {
		t.Error("nfs-ganesha is measured outside of namespaces")
	}
	testCompare(t, b)
	testLoads(t, b)
	testCost(t, b)
	testCalls(t, b)
	if err := b.measureVeth(t.Context()); err == nil || !strings.Contains(err.Error(), "needs root") {
		t.Errorf("a pair of namespaces in those of the machine: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.measureData(ctx); err == nil {
		t.Error("measured in spite of the end")
	}
	pid := b.ours.pid
	b.close()
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if _, err := memory(pid, "VmRSS"); err == nil {
		t.Error("the server is still there")
	}
}

// testLoads makes connections read a file, and stay idle.
func testLoads(t *testing.T, b *bed) {
	remove, err := b.layOut("shared")
	if err != nil {
		t.Fatalf("layOut: %v", err)
	}
	defer remove()
	for _, scheme := range []string{"nfsrdma", "nfs"} {
		var out bytes.Buffer
		if err := load([]string{"_conns", "2", "1ms", b.ours.url(scheme, "shared")}, nil, &out); err != nil {
			t.Fatalf("load: %v", err)
		}
		var r readings
		if err := json.Unmarshal(out.Bytes(), &r); err != nil || len(r.Bytes) != 2 || min(r.Bytes[0], r.Bytes[1]) < readDepth*readBlock || r.Seconds <= 0 {
			t.Errorf("%s: %v, %v", scheme, err, out.String())
		}
	}
	var cold bytes.Buffer
	if err := load([]string{"_cold", "1ms", b.ours.url("nfsrdma", "shared")}, nil, &cold); err != nil {
		t.Fatalf("load: %v", err)
	}
	if err := b.samples.addCold(cold.Bytes()); err != nil || b.samples["disk/rdma"][0] <= 0 {
		t.Errorf("%v, %v", err, cold.String())
	}
	in, hold := io.Pipe()
	out, signals := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- load([]string{"_idle", "20", b.ours.url("nfsrdma", "")}, in, signals) }()
	line := make([]byte, 32)
	n, err := out.Read(line)
	if err != nil {
		t.Fatalf("out.Read: %v", err)
	}
	if _, err := strconv.Atoi(strings.TrimSpace(string(line[:n]))); err != nil {
		t.Errorf("%q", line[:n])
	}
	hold.Close()
	if err := <-ended; err != nil {
		t.Errorf("at its end: %v", err)
	}
	for _, args := range [][]string{{"_conns", "x", "1s", ""}, {"_conns", "1", "x", ""}, {"_conns", "1", "1s", "none"}, {"_idle", "1", "none"},
		{"_conns", "1", "1ms", b.ours.url("nfsrdma", "no-such-file")}, {"_cold", "x", ""}, {"_cold", "1s", "none"},
		{"_cold", "1ms", b.ours.url("nfsrdma", "no-such-file")}} {
		if err := load(args, strings.NewReader(""), io.Discard); err == nil {
			t.Errorf("%q is taken", args)
		}
	}
}

// TestBuildFails: without a working compiler newBed fails, and leaves no file behind.
func TestBuildFails(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("GOFLAGS", "-no-such-flag")
	if _, err := newBed(t.Context(), config{dir: dir}); err == nil || !strings.Contains(err.Error(), "no-such-flag") {
		t.Errorf("%v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestMemoryOfAProcess(t *testing.T) {
	debug.FreeOSMemory() // or the runtime may return memory of earlier tests meanwhile
	at, err := resetPeak(os.Getpid())
	if err != nil || at <= 0 {
		t.Fatalf("%d, %v", at, err)
	}
	const size = 64 << 20
	p := make([]byte, size)
	for i := 0; i < size; i += os.Getpagesize() {
		p[i] = 1
	}
	if peak, err := memory(os.Getpid(), "VmHWM"); err != nil || peak < at+size/2 {
		t.Errorf("%d after %d, %v", peak, at, err)
	}
	for line, pid := range map[string]int{"VmNone": os.Getpid(), "VmRSS": 1 << 30} {
		if n, err := memory(pid, line); err == nil {
			t.Errorf("%s of %d is %d", line, pid, n)
		}
	}
}
