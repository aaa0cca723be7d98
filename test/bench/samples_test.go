// Samples and rows: medians, shares of rounds, and when a bar is met.

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/must"
)

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		of   []float64
		want float64
	}{{nil, 0}, {[]float64{7}, 7}, {[]float64{9, 1, 5}, 5}, {[]float64{4, 1, 3, 2}, 2.5}} {
		before := slices.Clone(c.of)
		if got := median(c.of); got != c.want || !slices.Equal(c.of, before) {
			t.Errorf("%v: %v, want %v; left %v", before, got, c.want, c.of)
		}
	}
}

// TestShareIsThatOfRounds: a share compares figures from the same round. In the second round both
// figures are half, in the third only b's. In the fourth b has no figure.
func TestShareIsThatOfRounds(t *testing.T) {
	s := samples{"a": {80, 40, 90, 5}, "b": {100, 50, 45, 0}, "none": nil}
	if got, ok := s.share("a", "b"); got != 0.8 || !ok {
		t.Errorf("%v, %v", got, ok)
	}
	for _, pair := range [][2]string{{"a", "none"}, {"none", "a"}, {"a", "unknown"}} {
		if got, ok := s.share(pair[0], pair[1]); got != 0 || ok {
			t.Errorf("%v: %v, %v", pair, got, ok)
		}
	}
}

func TestStateOfABar(t *testing.T) {
	s := samples{"us": {90, 100, 110}, "them": {100, 100, 100}, "zero": {0}}
	for _, c := range []struct {
		row  row
		want state
	}{
		{row{value: "us", against: "them", bar: 1}, stateMet},
		{row{value: "us", against: "them", bar: 1.01}, stateNotMet},
		{row{value: "us", against: "them", bar: 1.01, atMost: true}, stateMet},
		{row{value: "us", against: "them", bar: 0.99, atMost: true}, stateNotMet},
		{row{value: "us", bar: 100}, stateMet},
		{row{value: "us", bar: 101}, stateNotMet},
		{row{value: "us", against: "them"}, stateNone},
		{row{value: "us"}, stateNone},
		{row{value: "us", against: "zero", bar: 1}, stateMissing},
		{row{value: "unknown", bar: 1}, stateMissing},
		{row{value: "unknown", bar: 1, atMost: true}, stateMissing}, // 0 is not below the bar
	} {
		if got := c.row.line("g", s); got.State != c.want {
			t.Errorf("%+v: %q, want %q", c.row, got.State, c.want)
		}
	}
}

// TestRowsReadWhatIsMeasured: the group of a row can write each key read by the row. A misspelled
// key would never have a figure.
func TestRowsReadWhatIsMeasured(t *testing.T) {
	s := make(samples)
	var r report
	must.Succeed(t, json.Unmarshal([]byte(benchJSON), &r))
	for _, at := range []string{"data", "small", "small4", "latency", "loaded", "list", "list4", "million", "veth1500", "veth9000", "alone", "beside", "idle", "idlebefore", "roce", "link"} {
		for _, to := range []target{rdma, rdmaOff, tcp, ganesha, roce, roceLossy} {
			s.addReport(at, to, r)
		}
	}
	if err := s.addVerbs([]byte(verbsJSON)); err != nil {
		t.Fatalf("addVerbs: %v", err)
	}
	if err := s.addRoCE([]byte(roceJSON)); err != nil {
		t.Fatalf("addRoCE: %v", err)
	}
	for n, out := range map[int]string{1: `{"seconds":1,"bytes":[1]}`, 4: `{"seconds":1,"bytes":[1,1,1,1]}`, 8: `{"seconds":1,"bytes":[1,1,1,1,1,1,1,1]}`,
		16: `{"seconds":1,"bytes":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]}`} {
		if err := s.addConns(n, []byte(out)); err != nil {
			t.Fatalf("addConns: %v", err)
		}
	}
	for op := range costOps {
		if err := s.addCost([]byte(`{"` + op + `":[[1,1,1,1,1]]}`)); err != nil {
			t.Fatalf("addCost: %v", err)
		}
	}
	must.Succeed(t, s.addCold([]byte(coldJSON)), s.addFio([]byte(fioJSON)), s.addSockets([]byte(socketsJSON)))
	for _, key := range []string{"idle/count", "idle/before", "idle/client", "idle/server", "idle/resident", "idle/after", "million/growth"} {
		s.add(key, 1) // the measurement reads it from /proc
	}
	for i, g := range groups {
		if g.name != groupNames()[i] {
			t.Errorf("group %d is %s, in the list of names %s", i, g.name, groupNames()[i])
		}
		for _, x := range g.rows {
			if l := x.line(g.name, s); l.State == stateMissing {
				t.Errorf("%s, %s: nobody measures %s, or %s", g.name, x.name, x.value, x.against)
			}
		}
	}
}

const socketsJSON = `{"tcp/stream":4000,"tcp/pingpong":30,"iwarp/stream":3000,"iwarp/pingpong":12,
"iwarpoff/stream":3400,"iwarpoff/pingpong":12,"roce/stream":1700,"roce/pingpong":45}`

const roceJSON = `{"raw_udp":{"stream_mib_s":3000,"ping_pong_seconds":0.00002},"figures":[{"mode":{"roce":true},"test":"write","bytes":4096,"mib_s":100},
{"mode":{"roce":true},"test":"write","bytes":1048576,"mib_s":1500,"ratio_to_raw":0.75},{"mode":{"roce":true},"test":"read","bytes":1048576,"mib_s":1400,"ratio_to_raw":0.7},
{"mode":{"roce":true},"test":"send","bytes":100,"mean_seconds":0.00003},{"mode":{"roce":true,"lost_percent":1},"test":"write","bytes":1048576,"mib_s":800,"ratio_to_raw":0.4},
{"mode":{"roce":true,"lost_percent":1},"test":"read","bytes":1048576,"mib_s":700,"ratio_to_raw":0.35},{"mode":{"roce":true},"test":"datagram","bytes":100,"mean_seconds":0.000025}]}`

const benchJSON = `{"raw_tcp":{"stream_mib_s":1000,"ping_pong_seconds":0.00002,"limits":{"read_mib_s":700,"read_crc_mib_s":600,"sendfile_mib_s":800,
"write_mib_s":650,"write_crc_mib_s":550}},"tests":[
{"name":"null","calls_per_s":40000,"mean_seconds":0.000025,"p99_seconds":0.00005},{"name":"getattr","calls_per_s":90000,"mean_seconds":0.00008,"p50_seconds":0.00007,"p99_seconds":0.00012},
{"name":"lookup","calls_per_s":50000,"mean_seconds":0.00008,"p99_seconds":0.00012},{"name":"write","calls_per_s":500,"mib_s":500,"server_cpu_seconds_per_call":0.001},
{"name":"read","calls_per_s":1200,"mib_s":600,"mean_seconds":0.0009,"server_cpu_seconds_per_call":0.0005},{"name":"randread","calls_per_s":30000},
{"name":"randwrite","calls_per_s":20000},{"name":"readdirplus","calls_per_s":100,"entries_per_s":500000}]}`

const verbsJSON = `{"raw_tcp":{"stream_mib_s":2000},"figures":[
{"mode":{"crc":true,"markers":false},"test":"send","bytes":100,"mean_seconds":0.00002},
{"mode":{"crc":true,"markers":false},"test":"write","bytes":4096,"depth":8,"mib_s":300},{"mode":{"crc":true,"markers":false},"test":"read","bytes":4096,"depth":8,"mib_s":200},
{"mode":{"crc":true,"markers":false},"test":"write","bytes":4096,"depth":64,"mib_s":900},{"mode":{"crc":true,"markers":false},"test":"read","bytes":4096,"depth":64,"mib_s":850},
{"mode":{"crc":true,"markers":false},"test":"write","bytes":65536,"depth":8,"mib_s":900},{"mode":{"crc":true,"markers":false},"test":"read","bytes":65536,"depth":8,"mib_s":800},
{"mode":{"crc":true,"markers":false},"test":"write","bytes":1048576,"depth":8,"mib_s":1500},{"mode":{"crc":true,"markers":false},"test":"read","bytes":1048576,"depth":8,"mib_s":1400},
{"mode":{"crc":false,"markers":false},"test":"write","bytes":4096,"depth":8,"mib_s":9999},{"mode":{"crc":true,"markers":true},"test":"write","bytes":4096,"depth":8,"mib_s":9999}]}`

func TestReportsBecomeSamples(t *testing.T) {
	s := make(samples)
	var r report
	must.Succeed(t, json.Unmarshal([]byte(benchJSON), &r))
	s.addReport("x", rdma, r)
	for key, want := range map[string]float64{
		"x/read/rdma": 600, "x/getattr/rdma": 90000, "x/getattr/rdma/us": 80, "x/getattr/rdma/p99": 120, "x/readdirplus/rdma": 500000,
		"x/write/rdma/cpu": 1024, // 1 ms for each MiB
		"x/read/rdma/cpu":  1024, // half of that for half a MiB
		"x/raw/stream":     1000, "x/raw/pingpong": 20, "x/raw/readcrc": 600, "x/raw/writecrc": 550,
	} {
		if got := s[key]; !slices.Equal(got, []float64{want}) {
			t.Errorf("%s: %v, want %v", key, got, want)
		}
	}
	s = make(samples)
	s.addReport("x", tcp, report{}) // without raw TCP
	if len(s) != 0 {
		t.Errorf("%v", s)
	}
	if err := s.addVerbs([]byte(verbsJSON)); err != nil || !slices.Equal(s["rnic/write/4096/8"], []float64{300}) || !slices.Equal(s["rnic/write/4096/64"], []float64{900}) || s["rnic/raw"][0] != 2000 || s["rnic/send/100"] != nil {
		t.Errorf("%v, %v", s, err)
	}
	if err := s.addConns(3, []byte(`{"seconds":2,"bytes":[6291456,2097152,4194304]}`)); err != nil ||
		s["conns/3/sum"][0] != 6 || s["conns/3/mean"][0] != 2 || s["conns/3/least"][0] != 1 {
		t.Errorf("%v, %v", s, err)
	}
	for _, out := range []string{`{"seconds":2,"bytes":[1]}`, `{"seconds":0,"bytes":[1,2,3]}`, `x`} {
		if err := s.addConns(3, []byte(out)); err == nil {
			t.Errorf("%s is taken for three connections", out)
		}
	}
	if err := s.addRoCE([]byte(roceJSON)); err != nil || !slices.Equal(s["roce/write"], []float64{1500}) || !slices.Equal(s["roce/lossy/read"], []float64{700}) ||
		!slices.Equal(s["roce/send"], []float64{30}) || !slices.Equal(s["roce/raw/stream"], []float64{3000}) || !slices.Equal(s["roce/write/raw"], []float64{2000}) {
		t.Errorf("%v, %v", s, err)
	}
	if s.addVerbs([]byte("x")) == nil || s.addRoCE([]byte("x")) == nil {
		t.Error("no JSON is taken")
	}
}

func TestTableGolden(t *testing.T) {
	s := samples{"data/raw/stream": {2000, 3000, 1000}, "data/read/rdma": {900, 800}, "data/raw/readcrc": {1000, 1000}, "data/read/tcp": {2000, 1600},
		"data/read/rdma/cpu": {400, 500}, "data/read/rdma/clientcpu": {310, 300}}
	c := config{cpus: "0,1", place: placeShared, rounds: 3, duration: 200 * time.Millisecond}
	r := newResult(c, []group{{name: "data", rows: slices.DeleteFunc(slices.Clone(dataRows), func(x row) bool {
		return x.value != "data/raw/stream" && x.value != "data/read/rdma"
	})}}, s)
	want := []string{
		"figure share of bar server CPU client CPU",
		"raw TCP stream 2000 MiB/s",
		"READ 1 MiB, RDMA, CRC on 850 MiB/s 0.85 limit: pread + CRC ≥ 0.95 NOT MET 450 305 ms/GiB",
		"READ 1 MiB, RDMA, CRC on 850 MiB/s nfs-ganesha, TCP ≥ 1.00 not measured 450 305 ms/GiB",
		"READ 1 MiB, RDMA, CRC on 850 MiB/s 0.47 our TCP 450 305 ms/GiB",
	}
	got := strings.Split(strings.TrimSpace(r.table()), "\n")
	if len(got) != len(want)+3 || !strings.HasSuffix(got[1], "; CPUs 0,1; place shared; medians of 3 rounds of 200ms a figure") {
		t.Fatalf("%d lines:\n%s", len(got), r.table())
	}
	for i, l := range got[3:] {
		if l = strings.Join(strings.Fields(l), " "); l != want[i] {
			t.Errorf("%q, want %q", l, want[i])
		}
	}
	dir := filepath.Join(t.TempDir(), "new")
	r.Graphs = []chart{{Name: "c"}}
	if err := r.write(dir); err != nil {
		t.Fatalf("write: %v", err)
	}
	var back result
	figures, err := os.ReadFile(filepath.Join(dir, "figures.json"))
	if err != nil || json.Unmarshal(figures, &back) != nil || !reflect.DeepEqual(back.Rows, r.Rows) || !reflect.DeepEqual(back.Samples, s) {
		t.Errorf("%v: %+v", err, back)
	}
	for _, name := range []string{"table.txt", "c.svg"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Errorf("os.Stat: %v", err)
		}
	}
	if err := r.write("/dev/null/x"); err == nil {
		t.Error("files are written below a device")
	}
}

func TestNumbers(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.954: "0.95", 9.5: "9.50", 12.34: "12.3", 1234.5: "1234", 600_000: "600000"} {
		if got := number(v); got != want {
			t.Errorf("%v: %s, want %s", v, got, want)
		}
	}
}

const (
	fioJSON  = `{"jobs": [{"jobname": "cold", "read": {"iops": 24932.5, "bw": 99730}}]}`
	coldJSON = `{"seconds": 0.5, "bytes": [4096000]}`
)

func TestColdReads(t *testing.T) {
	s := samples{}
	if err := s.addFio([]byte(fioJSON)); err != nil || s["disk/fio"][0] != 24932.5 {
		t.Error(err, s)
	}
	if err := s.addCold([]byte(coldJSON)); err != nil || s["disk/rdma"][0] != 2000 {
		t.Error(err, s)
	}
	for _, out := range []string{"", "{}", `{"jobs": [{"read": {"iops": 0}}]}`} {
		if s.addFio([]byte(out)) == nil || s.addCold([]byte(out)) == nil {
			t.Errorf("%q is taken", out)
		}
	}
}
