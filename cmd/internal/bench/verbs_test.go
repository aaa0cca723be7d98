// The verbs: the peer's end, the measurements of a run, and misbehaving peers.

package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
)

var modes = []Mode{{CRC: true}, {}, {CRC: true, Markers: true}, {Markers: true}}

// startVerbsPeer runs the peer in this process; wait ends it and returns its error.
func startVerbsPeer(t *testing.T, m Mode) (addr string, wait func() error) {
	t.Helper()
	in, holdIn := io.Pipe()
	out, writeOut := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- VerbsPeer(t.Context(), m, in, writeOut) }()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("ReadString: %v", err)
	}
	return strings.TrimSpace(line), func() error {
		holdIn.Close()
		return <-ended
	}
}

// In each mode the figures match the bytes moved, and the written data returns by a Read.
func TestVerbsInEachMode(t *testing.T) {
	for _, m := range modes {
		t.Run(m.String(), func(t *testing.T) {
			addr, wait := startVerbsPeer(t, m)
			v, err := dialVerbs(t.Context(), m, addr)
			if err != nil {
				t.Fatalf("dialVerbs: %v", err)
			}
			var r VerbsReport
			for _, load := range []verbsLoad{{4 << 10, verbsDeep}, {verbsMemory, verbsDepth}} {
				n := load.size
				clear(v.mem)
				for _, op := range []rnic.Opcode{rnic.OpWrite, rnic.OpRead} {
					if err := r.bulk(t.Context(), v, m, op, load, time.Millisecond); err != nil {
						t.Fatalf("bulk: %v", err)
					}
				}
				if !bytes.Equal(v.mem[:n], v.src[:n]) {
					t.Errorf("%d bytes came back different", n)
				}
			}
			for i, want := range []string{"write", "read", "write", "read"} {
				f := r.Figures[i]
				if f.Test != want || f.Mode != m {
					t.Errorf("%s with %+v, want %s with %+v", f.Test, f.Mode, want, m)
				}
				if f.Count < 1 || f.MiBs <= 0 || f.AvgUs != 0 {
					t.Errorf("%s: %+v, want a throughput and no latency", want, f)
				}
			}
			h, err := v.pingPong(t.Context(), time.Millisecond)
			if err != nil || h.N == 0 || h.Min <= 0 {
				t.Errorf("%v, %+v", err, h)
			}
			v.qp.Close()
			if err := wait(); err != nil {
				t.Errorf("the peer ended with %v", err)
			}
		})
	}
}

// The whole run between processes gives a figure for each size, operation and mode.
func TestVerbsBetweenProcesses(t *testing.T) {
	fakeUCX(t, "")
	r, err := Verbs(t.Context(), time.Millisecond)
	if err != nil {
		t.Fatalf("Verbs: %v", err)
	}
	if want := len(modes) * (2*len(verbsLoads) + 1); len(r.Figures) != want || r.Depth != verbsDepth || r.UCX != nil || r.UCXErr != "" {
		t.Fatalf("%d figures, want %d: %+v", len(r.Figures), want, r)
	}
	if r.Raw.StreamMiBs <= 0 || r.Raw.PingPongUs <= 0 {
		t.Errorf("%+v", r.Raw)
	}
	for i, f := range r.Figures {
		if mode := modes[i/(2*len(verbsLoads)+1)]; f.Mode != mode || f.Count < 1 || f.Ratio <= 0 {
			t.Errorf("figure %d: %+v, want %v", i, f, mode)
		}
		if send := f.Test == "send"; send != (f.AvgUs > 0) || send == (f.MiBs > 0) {
			t.Errorf("figure %d: %+v", i, f)
		}
	}
}

// A failing UCX leaves our figures unchanged, and its error is in the report.
func TestVerbsStandWithoutUCX(t *testing.T) {
	fakeUCX(t, "exit 3")
	r, err := Verbs(t.Context(), time.Millisecond)
	if err != nil || len(r.Figures) == 0 || r.UCXErr == "" || r.Figures[0].Ratio <= 0 {
		t.Errorf("%v, %+v", err, r)
	}
}

func TestVerbsAreInterrupted(t *testing.T) {
	fakeUCX(t, "")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if r, err := Verbs(ctx, time.Hour); err == nil {
		t.Errorf("%+v", r)
	}
	addr, wait := startVerbsPeer(t, Mode{})
	v, err := dialVerbs(t.Context(), Mode{}, addr)
	if err != nil {
		t.Fatalf("dialVerbs: %v", err)
	}
	if _, err := v.pingPong(ctx, time.Hour); err == nil {
		t.Error("a ping-pong after the end")
	}
	v.qp.Close()
	if err := wait(); err != nil {
		t.Errorf("wait: %v", err)
	}
}

// A peer without a connection ends with its parent.
func TestVerbsPeerEndsWithItsParent(t *testing.T) {
	_, wait := startVerbsPeer(t, Mode{CRC: true})
	if err := wait(); err != nil {
		t.Errorf("wait: %v", err)
	}
}

// A lost peer ends each measurement with the connection's error.
func TestLostPeerEndsTheMeasurement(t *testing.T) {
	addr, wait := startVerbsPeer(t, Mode{})
	v, err := dialVerbs(t.Context(), Mode{}, addr)
	if err != nil {
		t.Fatalf("dialVerbs: %v", err)
	}
	v.qp.Close()
	<-v.qp.Done()
	var r VerbsReport
	for _, op := range []rnic.Opcode{rnic.OpWrite, rnic.OpRead} {
		if err := r.bulk(t.Context(), v, Mode{}, op, verbsLoad{4096, verbsDepth}, time.Hour); err == nil {
			t.Errorf("%v over a closed connection", op)
		}
	}
	if _, err := v.pingPong(t.Context(), time.Hour); err == nil {
		t.Error("a ping-pong over a closed connection")
	}
	if len(r.Figures) != 0 {
		t.Errorf("figures of nothing: %+v", r.Figures[0])
	}
	wait()
}

// Private data without a memory address is an error, and not used as an address.
func TestPeerMustNameItsMemory(t *testing.T) {
	dev := Mode{}.open()
	l, err := dev.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	defer l.Close()
	go func() {
		req, err := l.Accept(t.Context())
		if err != nil {
			return
		}
		e, err := newVerbsEnd(dev)
		if err != nil {
			return
		}
		_ = req.Accept(e.qp, rnic.ConnParams{PrivateData: make([]byte, 11)})
		<-e.qp.Done()
	}()
	if _, err := dialVerbs(t.Context(), Mode{}, l.Addr().String()); err == nil || !strings.Contains(err.Error(), "where its memory is") {
		t.Errorf("%v", err)
	}
}

func TestModesInWords(t *testing.T) {
	want := []string{"CRC on, markers off", "CRC off, markers off", "CRC on, markers on", "CRC off, markers on", "RoCE", "RoCE, 3 % of packets lost"}
	for i, m := range append(slices.Clone(modes), Mode{CRC: true, RoCE: true}, Mode{CRC: true, RoCE: true, Lost: 3}) {
		if m.String() != want[i] {
			t.Errorf("%+v: %q, want %q", m, m, want[i])
		}
	}
}

// verbsSample returns a report with two modes.
func verbsSample() *VerbsReport {
	r := &VerbsReport{Depth: 8, Figures: []*verbsFigure{
		{Mode: Mode{CRC: true}, Test: "write", Size: 4096, Count: 5, MiBs: 500},
		{Mode: Mode{CRC: true}, Test: "read", Size: 65536, Count: 5, MiBs: 250},
		{Mode: Mode{CRC: true}, Test: "send", Size: 100, Count: 9, AvgUs: 30, P50Us: 29, P99Us: 70},
		{Mode: Mode{Markers: true}, Test: "write", Size: 4096, Count: 5, MiBs: 1500},
	}}
	r.compare(rawReport{StreamMiBs: 1000, PingPongUs: 20})
	return r
}

func TestVerbsTable(t *testing.T) {
	var b strings.Builder
	if err := verbsSample().Table(&b); err != nil {
		t.Fatalf("Table: %v", err)
	}
	want := []string{
		"raw TCP: stream of 1 MiB writes 1000 MiB/s, ping-pong of 100 bytes 20.0 µs", "",
		"CRC on, markers off bytes MiB/s avg µs p50 µs p99 µs to raw TCP",
		"RDMA Write 4096 500 50%", "RDMA Read 65536 250 25%", "Send and answer 100 30.0 29.0 70.0 1.50×", "",
		"CRC off, markers on bytes MiB/s avg µs p50 µs p99 µs to raw TCP", "RDMA Write 4096 1500 150%", "",
		"UCX over TCP: not measured, ucx_perftest is not installed (Debian: ucx-utils)", "",
	}
	lines := strings.Split(b.String(), "\n")
	if len(lines) != len(want) {
		t.Fatalf("%d lines, want %d:\n%s", len(lines), len(want), &b)
	}
	for i, line := range lines {
		if got := strings.Join(strings.Fields(line), " "); got != want[i] {
			t.Errorf("line %d: %q, want %q", i, got, want[i])
		}
	}
}

func TestVerbsJSONFields(t *testing.T) {
	out, err := json.Marshal(verbsSample())
	if err != nil {
		t.Fatalf("json.Marshal: %v", err)
	}
	for _, want := range []string{`{"depth":8,"raw_tcp":{"stream_mib_s":1000,"ping_pong_seconds":0.00002},"figures":[`,
		`{"mode":{"crc":true,"markers":false},"test":"write","bytes":4096,"count":5,"mib_s":500,"ratio_to_raw":0.5}`,
		`"test":"send","bytes":100,"count":9,"mean_seconds":0.00003,"p50_seconds":0.000029,"p99_seconds":0.00007,"ratio_to_raw":1.5}`} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %s in %s", want, out)
		}
	}
}
