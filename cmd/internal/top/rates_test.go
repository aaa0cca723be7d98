// Rates from two snapshots: golden values, and implausible ones.

package top

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/figures"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// when is the time of the second snapshot.
var when = time.Date(2026, 3, 1, 9, 12, 44, 0, time.UTC)

const types = "# TYPE nfsrdma_call_duration_seconds histogram\n"

const firstText = types + `nfsrdma_build_info{version="v1.2",revision="x"} 1
process_start_time_seconds 1772356000
process_cpu_seconds_total 10
nfsrdma_calls_total{procedure="READ",program="nfs",transport="rdma"} 1000
nfsrdma_calls_total{procedure="LOCK",program="nlm",transport="tcp"} 5
nfsrdma_calls_total{procedure="WRITE",program="nfs",transport="rdma"} 0
nfsrdma_call_duration_seconds_bucket{procedure="READ",program="nfs",transport="rdma",le="0.001"} 1000
nfsrdma_call_duration_seconds_bucket{procedure="READ",program="nfs",transport="rdma",le="0.01"} 1000
nfsrdma_call_duration_seconds_bucket{procedure="READ",program="nfs",transport="rdma",le="+Inf"} 1000
nfsrdma_call_duration_seconds_sum{procedure="READ",program="nfs",transport="rdma"} 1
nfsrdma_call_duration_seconds_count{procedure="READ",program="nfs",transport="rdma"} 1000
nfsrdma_argument_bytes_total{procedure="READ",program="nfs",transport="rdma"} 100000
nfsrdma_result_bytes_total{procedure="READ",program="nfs",transport="rdma"} 1000000
nfsrdma_duplicate_calls_total{outcome="replayed"} 1
nfsrdma_duplicate_calls_total{outcome="joined"} 1
`

const secondText = types + `nfsrdma_build_info{version="v1.2",revision="x"} 1
process_start_time_seconds 1772356000
process_cpu_seconds_total 13
process_resident_memory_bytes 33554432
nfsrdma_calls_total{procedure="READ",program="nfs",transport="rdma"} 1200
nfsrdma_calls_total{procedure="LOCK",program="nlm",transport="tcp"} 5
nfsrdma_calls_total{procedure="WRITE",program="nfs",transport="rdma"} 10
nfsrdma_call_duration_seconds_bucket{procedure="READ",program="nfs",transport="rdma",le="0.001"} 1100
nfsrdma_call_duration_seconds_bucket{procedure="READ",program="nfs",transport="rdma",le="0.01"} 1199
nfsrdma_call_duration_seconds_bucket{procedure="READ",program="nfs",transport="rdma",le="+Inf"} 1200
nfsrdma_call_duration_seconds_sum{procedure="READ",program="nfs",transport="rdma"} 2
nfsrdma_call_duration_seconds_count{procedure="READ",program="nfs",transport="rdma"} 1200
nfsrdma_argument_bytes_total{procedure="READ",program="nfs",transport="rdma"} 120000
nfsrdma_result_bytes_total{procedure="READ",program="nfs",transport="rdma"} 210715200
nfsrdma_call_errors_total{procedure="READ",program="nfs",status="NFS3ERR_IO",transport="rdma"} 3
nfsrdma_call_errors_total{procedure="READ",program="nfs",status="NFS3ERR_STALE",transport="rdma"} 1
nfsrdma_duplicate_calls_total{outcome="replayed"} 4
nfsrdma_duplicate_calls_total{outcome="joined"} 2
nfsrdma_connections{rdma="iwarp",transport="rdma"} 2
nfsrdma_connections{rdma="",transport="tcp"} 1
nfsrdma_credits_granted{rdma="iwarp"} 128
nfsrdma_credits_used{rdma="iwarp"} 7
nfsrdma_budget_bytes{budget="data"} 268435456
nfsrdma_budget_used_bytes{budget="data"} 1048576
nfsrdma_locks_held 2
nfsrdma_locks_waiting 1
`

func snapshot(t *testing.T, at time.Time, text string) *Snapshot {
	t.Helper()
	set, err := figures.Parse(text)
	if err != nil {
		t.Fatalf("Parse: %v", err)
	}
	return &Snapshot{At: at, Figures: set}
}

// sample returns the report between the texts of two snapshots, two seconds apart, with two
// connections.
func sample(t *testing.T) *Report {
	before, now := snapshot(t, when.Add(-2*time.Second), firstText), snapshot(t, when, secondText)
	before.Clients = []Client{{Address: "10.0.0.7:700", Transport: "tcp", Calls: 10, In: 1000, Out: 1000, Age: 60}, {Address: "10.0.0.9:1", Transport: "tcp", Calls: 7}}
	now.Clients = []Client{{Address: "10.0.0.7:700", Transport: "tcp", Exports: []string{"/srv/my data"}, Calls: 30, In: 3000, Out: 2098152, Age: 62, Idle: 0.5},
		{Address: "10.0.0.8:900", Transport: "rdma/iwarp", Calls: 4, Age: 1}}
	for i, text := range []string{`[{"sec":"sys","uid":1000,"calls":5},{"sec":"krb5p","uid":0,"principal":"host/pc@R","calls":2},{"sec":"sys","uid":7,"calls":3}]`,
		`[{"sec":"krb5p","uid":0,"principal":"host/pc@R","calls":4},{"sec":"sys","uid":1000,"calls":7},{"sec":"sys","uid":7,"calls":3},{"sec":"krb5i","uid":1000,"principal":"ann@R","calls":2},
			{"sec":"none","uid":null,"calls":16},{"sec":"krb5p","uid":null,"principal":"bob@OTHER","calls":8}]`} {
		must.Succeed(t, json.Unmarshal([]byte(text), &[]*Client{&before.Clients[0], &now.Clients[0]}[i].Users))
	}
	must.Succeed(t, json.Unmarshal([]byte(`{"xprtsec":"mtls","tls":{"version":"TLS 1.3","cipher":"TLS_AES_128_GCM_SHA256"}}`), &now.Clients[0]))
	must.Succeed(t, json.Unmarshal([]byte(`{"credits_granted":64,"credits_used":7}`), &now.Clients[1].RDMA))
	return now.since(before, "server:9049")
}

// wantJSON is sample's report as JSON.
const wantJSON = `{
 "server": "server:9049",
 "version": "v1.2",
 "time": "2026-03-01T09:12:44Z",
 "interval_seconds": 2,
 "uptime_seconds": 364,
 "restarted": false,
 "calls_per_second": 105,
 "in_bytes_per_second": 10000,
 "out_bytes_per_second": 104857600,
 "errors_per_second": 2,
 "repeated_calls_per_second": 2,
 "refusals_per_second": 0,
 "roce_retransmissions_per_second": 0,
 "locks_lost_per_second": 0,
 "cpu_seconds_per_second": 1.5,
 "memory_bytes": 33554432,
 "connections": {
  "iwarp": 2,
  "tcp": 1
 },
 "credits_granted": 128,
 "credits_used": 7,
 "budget_bytes": 268435456,
 "budget_used_bytes": 1048576,
 "budget_waiting_connections": 0,
 "locks_held": 2,
 "locks_waiting": 1,
 "operations": [
  {
   "program": "nfs",
   "procedure": "READ",
   "transport": "rdma",
   "calls_per_second": 100,
   "in_bytes_per_second": 10000,
   "out_bytes_per_second": 104857600,
   "mean_seconds": 0.005,
   "p99_seconds": 0.009909090909090909,
   "running": 0.5,
   "errors_per_second": 2
  },
  {
   "program": "nfs",
   "procedure": "WRITE",
   "transport": "rdma",
   "calls_per_second": 5,
   "in_bytes_per_second": 0,
   "out_bytes_per_second": 0,
   "mean_seconds": 0,
   "p99_seconds": 0,
   "running": 0,
   "errors_per_second": 0
  }
 ],
 "clients": [
  {
   "address": "10.0.0.7:700",
   "transport": "tcp",
   "exports": [
    "/srv/my data"
   ],
   "users": [
    {
     "sec": "none",
     "uid": null,
     "calls_per_second": 8
    },
    {
     "sec": "krb5p",
     "uid": null,
     "principal": "bob@OTHER",
     "calls_per_second": 4
    },
    {
     "sec": "krb5p",
     "uid": 0,
     "principal": "host/pc@R",
     "calls_per_second": 1
    },
    {
     "sec": "sys",
     "uid": 1000,
     "calls_per_second": 1
    },
    {
     "sec": "krb5i",
     "uid": 1000,
     "principal": "ann@R",
     "calls_per_second": 1
    }
   ],
   "calls_per_second": 10,
   "in_bytes_per_second": 1000,
   "out_bytes_per_second": 1048576,
   "credits_used": 0,
   "credits_granted": 0,
   "age_seconds": 62,
   "idle_seconds": 0.5,
   "xprtsec": "mtls",
   "cipher": "TLS_AES_128_GCM_SHA256",
   "sec": [
    "krb5p",
    "sys",
    "krb5i",
    "none"
   ]
  },
  {
   "address": "10.0.0.8:900",
   "transport": "rdma/iwarp",
   "exports": [],
   "users": [],
   "calls_per_second": 2,
   "in_bytes_per_second": 0,
   "out_bytes_per_second": 0,
   "credits_used": 7,
   "credits_granted": 64,
   "age_seconds": 1,
   "idle_seconds": 0,
   "xprtsec": "none",
   "sec": []
  }
 ]
}`

func TestRates(t *testing.T) {
	r := sample(t)
	got, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		t.Fatalf("json.MarshalIndent: %v", err)
	}
	if string(got) != wantJSON {
		t.Errorf("%s", got)
	}
}

// TestCountersBeginAgain: after a restart, the rates cover the counts since then. The start time
// shows a restart; so does a counter that has decreased.
func TestCountersBeginAgain(t *testing.T) {
	const name = `nfsrdma_calls_total{procedure="READ",program="nfs",transport="tcp"} `
	for text, want := range map[string]Report{
		name + "40\nprocess_start_time_seconds 5\n":  {Calls: 0},
		name + "60\nprocess_start_time_seconds 9\n":  {Calls: 30, Restarted: true},
		name + "10\nprocess_start_time_seconds 5\n":  {Calls: 5},
		name + "-10\nprocess_start_time_seconds 5\n": {Calls: 0},
		name + "NaN\nprocess_start_time_seconds 5\n": {Calls: 0},
		"process_start_time_seconds 5\n":             {Calls: 0},
	} {
		before := snapshot(t, when.Add(-2*time.Second), name+"40\nprocess_start_time_seconds 5\n")
		r := snapshot(t, when, text).since(before, "s")
		if r.Calls != want.Calls || r.Restarted != want.Restarted {
			t.Errorf("%q: %v calls/s, restarted %v", text, r.Calls, r.Restarted)
		}
	}
	// Two connections reuse addresses: one is younger than the interval, and the other has fewer
	// calls than its predecessor.
	list := clientsSince([]Client{{Address: "a", Calls: 90, Age: 1}, {Address: "b", Calls: 8, Age: 9}}, []Client{{Address: "a", Calls: 80, Age: 50}, {Address: "b", Calls: 10, Age: 7}}, 2, false)
	if list[0].Calls != 45 || list[1].Calls != 4 {
		t.Errorf("%+v", list)
	}
}

// TestHostileFigures: whatever a server sends, a report has valid numbers, and lines that fit.
func TestHostileFigures(t *testing.T) {
	values := []string{"NaN", "-Inf", "+Inf", "1e308", "-1e308", "18446744073709551615", "1e-320", "0", "-0", "1e19"}
	var texts []string
	for i, v := range values {
		texts = append(texts, strings.NewReplacer(" 1000\n", " "+v+"\n", " 1200\n", " "+values[(i+3)%len(values)]+"\n", `"READ"`, `"\\x1b[2J\u001b\"`+"\x1b[31m\x07\u009b2J"+`"`, " 13\n", " "+v+"\n").Replace(secondText))
	}
	for _, a := range append(texts, firstText) {
		for _, b := range append(texts, "x 1\n") {
			for _, apart := range []time.Duration{-time.Hour, 0, 1, time.Second, math.MaxInt64} {
				r := snapshot(t, when.Add(apart), b).since(snapshot(t, when, a), "\x1b[31mserver")
				var asJSON bytes.Buffer
				if err := (&Options{JSON: true}).write(&asJSON, r); err != nil || !json.Valid(asJSON.Bytes()) {
					t.Fatalf("%v: %q", err, &asJSON)
				}
				if strings.ContainsAny(asJSON.String(), "\x1b\x07\u009b") {
					t.Fatalf("%q", &asJSON)
				}
				for _, s := range []style{{order: "p99"}, {width: 33, height: 9, order: "queue", colors: true}} {
					for _, line := range s.lines(r) {
						if rest := strings.NewReplacer(bold, "", reverse, "", red, "", plain, "").Replace(line); strings.ContainsAny(rest, "\x1b\x07\u009b\n") {
							t.Fatalf("%q", line)
						}
					}
				}
			}
		}
	}
}
