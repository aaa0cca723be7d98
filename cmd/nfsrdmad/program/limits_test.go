// The flags for limits, and the settings that they change.

package program

import (
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/spf13/pflag"
)

// listen returns the Listen that results from the flags.
func listen(t *testing.T, args ...string) (l nfsserver.Listen, err error) {
	t.Helper()
	var m limits
	f := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	m.flags(f)
	if err := f.Parse(args); err != nil {
		t.Fatalf("Parse: %v", err)
	}
	err = m.apply(&l)
	return l, err
}

func TestLimits(t *testing.T) {
	l, err := listen(t, "--max-conns=10", "--max-conns-per-host=3", "--max-handshakes=5", "--credits=7", "--budget=32M")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	if l.RPC.MaxConns != 10 || l.RPC.MaxConnsPerHost != 3 || l.Device.MaxHandshakes != 5 || l.RPC.RDMA.Credits != 7 {
		t.Errorf("%+v, want 10 connections, 3 a host, 5 handshakes, 7 credits", l)
	}
	if l.RPC.Budget == nil || l.RPC.Budget.Total() != 32<<20 {
		t.Errorf("budget %v, want 32 MiB", l.RPC.Budget)
	}
	if _, err := listen(t); err != nil {
		t.Errorf("without flags: %v", err)
	}
	for _, bad := range []string{"--max-conns=0", "--max-conns-per-host=-1", "--max-handshakes=0", "--credits=0", "--credits=5000", "--budget=1M", "--budget=much"} {
		flag, _, _ := strings.Cut(bad, "=")
		if _, err := listen(t, bad); err == nil || !strings.HasPrefix(err.Error(), flag) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
