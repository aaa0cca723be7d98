// Metrics of RoCE: dropped packets by reason.

package program

import (
	"context"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
)

// TestRoCEDrops: a datagram too short for a packet is counted under its reason; other reasons stay
// 0.
func TestRoCEDrops(t *testing.T) {
	addr := machine.Addr(t).String()
	figures := "127.0.0.1:" + freePort(t)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	done := make(chan error)
	go func() {
		_, err := run(ctx, "serve", "--memory", "--state-dir", filepath.Join(t.TempDir(), "state"), "--addr", addr, "--tcp-port", "0",
			"--rdma", "roce", "--rpcbind", "off", "--metrics-addr", figures, "--log-level", "error")
		done <- err
	}()
	c, err := net.Dial("udp", addr+":4791")
	if err != nil {
		t.Fatalf("net.Dial: %v", err)
	}
	defer c.Close()
	all := ""
	for want := `nfsrdma_roce_dropped_packets_total{reason="malformed"} 1` + "\n"; ; time.Sleep(time.Millisecond) {
		if all = scrape(figures); strings.Contains(all, want) {
			break
		}
		if ctx.Err() != nil {
			t.Fatalf("no %s in %s", want, all)
		}
		if strings.Contains(all, `{reason="malformed"} 0`) {
			// RoCE is served now; an earlier datagram would not be counted
			c.Write([]byte("short"))
			for strings.Contains(scrape(figures), `{reason="malformed"} 0`) && ctx.Err() == nil {
				time.Sleep(time.Millisecond)
			}
		}
	}
	if !strings.Contains(all, `nfsrdma_roce_dropped_packets_total{reason="ICRC"} 0`+"\n") || strings.Contains(all, `reason="accepted"`) {
		t.Errorf("of other reasons:\n%s", all)
	}
	problems, err := promlint.New(strings.NewReader(all)).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("at its end: %v", err)
	}
}
