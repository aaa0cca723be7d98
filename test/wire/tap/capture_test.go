// Captures that tshark parses whole.

package tap

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/machine"
)

// TestConnectionsOfOnePort: two connections may use the same ports, one after the other. tshark
// then sees the FPDUs of both.
func TestConnectionsOfOnePort(t *testing.T) {
	if _, err := exec.LookPath("tshark"); err != nil {
		machine.Skip(t, err.Error())
	}
	path := filepath.Join(t.TempDir(), "pcap")
	file, err := os.Create(path)
	if err != nil {
		t.Fatalf("os.Create: %v", err)
	}
	defer file.Close()
	c := NewCapture(file)
	request := []byte("MPA ID Req Frame\x50\x02\x00\x00")
	reply, _ := stream(100, 200)
	for range 2 {
		f := c.flow(50_000, 20_049)
		f.data(ToServer, request)
		f.data(ToClient, reply)
		f.fin(ToServer)
		f.fin(ToClient)
	}
	if err := c.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	out, err := exec.Command("tshark", "-r", path, "-o", "tcp.try_heuristic_first:TRUE", "-T", "fields", "-e", "iwarp_mpa.ulpdulength").Output()
	if err != nil {
		t.Fatalf("tshark: %v", err)
	}
	if got, want := strings.Join(strings.Fields(string(out)), " "), "100 200 100 200"; got != want {
		t.Errorf("tshark sees FPDUs of %s bytes, want %s", got, want)
	}
}
