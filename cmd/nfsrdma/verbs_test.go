// nfsrdma verbs: both roles on the command line.

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/cmd/internal/jsontest"
	"github.com/nfsrdma/nfsrdma/cmd/internal/verbs"
	"github.com/nfsrdma/nfsrdma/test/machine"
)

// A waiting takes a server's standard error, and sends the address in the line about waiting.
type waiting chan string

func (w waiting) Write(b []byte) (int, error) {
	if at, ok := strings.CutPrefix(string(b), "waiting for a client at "); ok {
		w <- strings.TrimSpace(at)
	}
	return len(b), nil
}

// serveVerbs runs a server with JSON. It returns a function that runs a client, and one that
// returns the server's report.
func serveVerbs(t *testing.T, args ...string) (client func(...string) string, report func() string) {
	t.Helper()
	host, port := machine.Addr(t).String(), strconv.Itoa(machine.Port(t))
	var out bytes.Buffer
	stderr, done := make(waiting, 1), make(chan int, 1)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	go func() {
		done <- run(ctx, append([]string{"verbs"}, append(args, "--addr", net.JoinHostPort(host, port), "--json")...), nil, &out, stderr)
	}()
	<-stderr
	client = func(args ...string) string {
		t.Helper()
		return nfs(t, append(append([]string{"verbs"}, args...), "-p", port, "--addr", machine.Addr(t).String(), host)...)
	}
	return client, func() string {
		if code := <-done; code != 0 {
			t.Errorf("the server ended with %d", code)
		}
		jsontest.Documented(t, "../../docs", "nfsrdma", append([]string{"verbs"}, args...), out.String())
		return out.String()
	}
}

func TestVerbsPingpong(t *testing.T) {
	client, report := serveVerbs(t, "pingpong", "-c", "ud", "-n", "20", "-s", "512")
	out := client("pingpong", "-c", "ud", "-n", "20", "-s", "512")
	if !strings.Contains(out, "20 iterations of 512 bytes") {
		t.Error(out)
	}
	var r verbs.PingpongReport
	if err := json.Unmarshal([]byte(report()), &r); err != nil || r.Role != "server" || r.Iterations != 20 || r.Megabits <= 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestVerbsUcmatose(t *testing.T) {
	client, report := serveVerbs(t, "ucmatose", "-n", "20", "-s", "5000")
	out := client("ucmatose", "-n", "20", "-s", "5000")
	if !strings.Contains(out, "20 iterations of 5000 bytes") {
		t.Error(out)
	}
	var r verbs.PingpongReport
	if err := json.Unmarshal([]byte(report()), &r); err != nil || r.Test != "ucmatose" || r.Role != "server" || r.Iterations != 20 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestVerbsPerf(t *testing.T) {
	client, report := serveVerbs(t, "perf", "send_bw", "-n", "50", "-s", "10K")
	out := client("perf", "ib_send_bw", "-n", "50", "-s", "10K")
	if !strings.Contains(out, "50 of 50 messages of 10240 bytes: ") {
		t.Error(out)
	}
	var r verbs.PerfReport
	if err := json.Unmarshal([]byte(report()), &r); err != nil || r.Role != "server" || r.Messages != 50 || r.Average <= 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestVerbsRping(t *testing.T) {
	client, report := serveVerbs(t, "rping")
	out := client("rping", "-n", "7")
	if !strings.Contains(out, "7 iterations of 64 bytes") {
		t.Error(out)
	}
	if r := report(); !strings.Contains(r, `"iterations": 7`) || strings.Contains(r, "mtu") {
		t.Error(r)
	}
}

// TestVerbsMistakes: an invalid option gives one error line.
func TestVerbsMistakes(t *testing.T) {
	for want, args := range map[string][]string{
		"--service xrc: one of rc, uc, ud": {"pingpong", "-c", "xrc"},
		"--mtu 1500: one of":               {"pingpong", "-m", "1500", "x"},
		"--addr me: not an address":        {"pingpong", "--addr", "me"},
		"--addr me:7: not an address":      {"pingpong", "--addr", "me:7"},
		"--addr 127.0.0.1:7: this test":    {"mckey", "--addr", "127.0.0.1:7", "239.0.0.1"},
		"--port 8 contradict each other":   {"pingpong", "--addr", "127.0.0.1:7", "-p", "8"},
		"the name of the server is empty":  {"pingpong", ""},
		"--size 536870912: 1 byte to":      {"pingpong", "-s", "512M", "x"},
		"connection refused":               {"pingpong", "-p", "1", machine.Addr(t).String()},
		"no such test; there are read_lat": {"perf", "atomic_lat", "x"},
		"--service uc: ":                   {"perf", "read_lat", "-c", "uc", "x"},
		"--size 70000: 16 to 65536":        {"rping", "-s", "70000", "x"},
		"too many arguments":               {"pong"},
	} {
		var out, errs bytes.Buffer
		if code := run(t.Context(), append([]string{"verbs"}, args...), nil, &out, &errs); code == 0 || !strings.Contains(errs.String(), want) || strings.Count(errs.String(), "\n") != 1 {
			t.Errorf("%q: %d, %q, want %q", args, code, errs.String(), want)
		}
	}
}
