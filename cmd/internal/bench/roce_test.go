// RoCE compared with raw UDP: a run between processes, the lossy network, and the report.

package bench

import (
	"context"
	"encoding/json"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
	"github.com/nfsrdma/nfsrdma/rnic/roce/udp"
)

// The whole run between processes gives each figure, and its ratio to raw UDP.
func TestRoCEBetweenProcesses(t *testing.T) {
	r, err := RoCE(t.Context(), time.Millisecond)
	if err != nil {
		t.Fatalf("RoCE: %v", err)
	}
	var want []string
	for range verbsLoads { // the largest size alternates with raw UDP
		want = append(want, "RoCE write", "RoCE read")
	}
	want = append(want, "RoCE send", "RoCE, 1 % of packets lost write", "RoCE, 1 % of packets lost read", "RoCE datagram")
	var got []string
	for _, f := range r.Figures {
		got = append(got, f.Mode.String()+" "+f.Test)
		of := f.MiBs / r.UDP.StreamMiBs
		if f.isLatency() {
			of = float64(f.AvgUs / r.UDP.PingPongUs)
		}
		inTurns := f.Size == verbsLoads[len(verbsLoads)-1].size && f.Mode.Lost == 0
		if f.Count < 1 || f.Ratio <= 0 || f.Ratio != of && !inTurns || inTurns && f.Count < sliceCount {
			t.Errorf("%+v", f)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("measured %q, want %q", got, want)
	}
	if r.Raw != (rawReport{}) || r.UDP.StreamMiBs <= 0 || r.UDP.PingPongUs <= 0 {
		t.Errorf("%+v, %+v", r.Raw, r.UDP)
	}
}

func TestRoCEIsInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if r, err := RoCE(ctx, time.Hour); err == nil {
		t.Errorf("%+v", r)
	}
}

// A stillWire sends nothing: it keeps the packet added last, and has one received packet.
type stillWire struct {
	udp.Wire
	room  [64]byte
	added []byte
}

func (w *stillWire) Room() []byte { return w.room[:] }

func (w *stillWire) Add(n int, _ packet.Tail, _ netip.AddrPort) error {
	w.added = slices.Clone(w.room[:n])
	return nil
}

func (w *stillWire) Packet(int) (network, datagram []byte, good bool) {
	return []byte("network"), []byte("datagram"), true
}

// The requested share of packets is lost in each direction, and the others pass unchanged.
func TestLossyWire(t *testing.T) {
	const n = 4000
	for _, percent := range []int{0, 10, 100} {
		still := &stillWire{}
		w := &lossyWire{Wire: still, percent: uint32(percent)}
		var out, in int
		for range n {
			copy(w.Room(), "BTH..QPN.and more")
			if err := w.Add(17, packet.Tail{}, netip.AddrPort{}); err != nil {
				t.Fatalf("Add: %v", err)
			}
			switch string(still.added) {
			case "BTH..\x00\x00\x00.and more":
				out++
			case "BTH..QPN.and more":
			default:
				t.Fatalf("%q leaves", still.added)
			}
			switch network, datagram, good := w.Packet(0); {
			case len(datagram) == 0 && !good:
				in++
			case string(network) != "network" || string(datagram) != "datagram" || !good:
				t.Fatalf("%q, %q, %v comes", network, datagram, good)
			}
		}
		for _, lost := range []int{out, in} {
			if want := n * percent / 100; lost < want*3/4 || lost > want*5/4 {
				t.Errorf("%d of %d are lost, want %d %%", lost, n, percent)
			}
		}
	}
}

// roceSample returns a report with one figure of each kind.
func roceSample() *VerbsReport {
	m := Mode{CRC: true, RoCE: true}
	r := &VerbsReport{Depth: 8, UDP: udpReport{StreamMiBs: 2000, PingPongUs: 20}, Figures: []*verbsFigure{
		{Mode: m, Test: "write", Size: 1 << 20, Count: 5, MiBs: 1000},
		{Mode: m, Test: "send", Size: 100, Count: 9, AvgUs: 30, P50Us: 29, P99Us: 70},
		{Mode: m, Test: "datagram", Size: 100, Count: 9, AvgUs: 25, P50Us: 24, P99Us: 60},
	}}
	r.ratios(2000, 20)
	return r
}

func TestRoCETable(t *testing.T) {
	var b strings.Builder
	if err := roceSample().Table(&b); err != nil {
		t.Fatalf("Table: %v", err)
	}
	want := []string{
		"raw UDP: stream of packets of 4112 bytes, 15 joined, 2000 MiB/s, ping-pong of 100 bytes 20.0 µs", "",
		"RoCE bytes MiB/s avg µs p50 µs p99 µs to raw UDP",
		"RDMA Write 1048576 1000 50%", "Send and answer 100 30.0 29.0 70.0 1.50×", "Datagram and answer 100 25.0 24.0 60.0 1.25×", "",
	}
	for i, line := range strings.Split(b.String(), "\n") {
		if got := strings.Join(strings.Fields(line), " "); i >= len(want) || got != want[i] {
			t.Fatalf("line %d: %q, want %q", i, got, want[min(i, len(want)-1)])
		}
	}
}

func TestRoCEJSONFields(t *testing.T) {
	out, err := json.Marshal(roceSample())
	if err != nil {
		t.Fatalf("json.Marshal: %v", err)
	}
	for _, want := range []string{`{"depth":8,"raw_udp":{"stream_mib_s":2000,"ping_pong_seconds":0.00002},"figures":[`,
		`{"mode":{"crc":true,"markers":false,"roce":true},"test":"write","bytes":1048576,"count":5,"mib_s":1000,"ratio_to_raw":0.5}`} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %s in %s", want, out)
		}
	}
}
