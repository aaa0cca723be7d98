// Soft RoCE over a network that loses, reorders and repeats packets, both ways.

package linux

import (
	"strings"
	"testing"
)

// losses returns netem's treatment of packets, both ways. In the short form no packet overtakes
// another, because rxe then takes long.
func losses() []string {
	if full {
		return []string{"loss 0.1%", "loss 1%", "loss 5%", "delay 2ms reorder 25%", "duplicate 2%"}
	}
	return []string{"loss 1% duplicate 1%"}
}

// TestRxeLosses: netem's treatment of packets costs time, and nothing else.
func TestRxeLosses(t *testing.T) {
	t.Parallel()
	for _, series := range []string{"6.1", "6.12"} {
		t.Run(series, func(t *testing.T) {
			enter(t, series)
			if full || series == "6.1" {
				t.Run("client", func(t *testing.T) { rxeLosesToUs(t, series) })
			}
			if full || series == "6.12" {
				t.Run("knfsd", func(t *testing.T) { weLoseToRxe(t, series) })
			}
		})
	}
}

func rxeLosesToUs(t *testing.T, series string) {
	g := rxeClient(t, series)
	for _, netem := range losses() {
		t.Run(strings.ReplaceAll(netem, " ", "-"), func(t *testing.T) {
			c := captureDevice(t, g.Device)
			s := serveRoCE(t, g, memoryDir(t))
			run(t, g, "lossy "+netem)
			mount := s.mount("rdma", "")
			for range 3 {
				run(t, g, mount+"\n"+client1MB)
			}
			run(t, g, mount)
			checks(t, g, "-dir /mnt -large 4 -run 'sizes|large'")
			run(t, g, unmount+"; lossy")
			s.stop()
			c.check(t, true)
		})
	}
}

func weLoseToRxe(t *testing.T, series string) {
	g := rxeServer(t, series)
	for _, netem := range losses() {
		t.Run(strings.ReplaceAll(netem, " ", "-"), func(t *testing.T) {
			c := captureDevice(t, g.Device)
			run(t, g, "lossy "+netem)
			cp := roceTool(t, g)
			listCatCopy(t, cp, 4)
			sizesRoundTrip(t, cp)
			run(t, g, "lossy")
			c.check(t, true)
		})
	}
}
