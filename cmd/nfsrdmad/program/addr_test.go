// --addr: every form of an address that people write, and what is said of the others.

package program

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/transport"
)

func TestListenHost(t *testing.T) {
	for in, want := range map[string]string{
		"127.0.0.1": "127.0.0.1", "::1": "::1", "[::1]": "::1", "::": "::", "[::]": "::", "localhost": "localhost",
		"fe80::1%eth0": "fe80::1%eth0", "[fe80::1%eth0]": "fe80::1%eth0", "my-host.lan": "my-host.lan",
	} {
		if got, err := listenHost(in); err != nil || got != want {
			t.Errorf("listenHost(%q) = %q, %v; want %q", in, got, err, want)
		}
	}
	for in, want := range map[string]string{
		"":               "is empty",
		"[127.0.0.1]":    "no IPv6 address in the brackets",
		"[::1":           "neither a name nor an address",
		"[]":             "no IPv6 address in the brackets",
		"127.0.0.1:2049": "--addr 127.0.0.1, and --rdma-port 2049 or --tcp-port 2049",
		"[::1]:2049":     "--addr ::1, and --rdma-port 2049 or --tcp-port 2049",
		"nfs://host":     "neither a name nor an address",
	} {
		if _, err := listenHost(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("listenHost(%q): %v, want %q", in, err, want)
		}
	}
}

// TestServeOnBracketedAddress serves on [::1] and reaches it there, over both transports' ports.
func TestServeOnBracketedAddress(t *testing.T) {
	tcp, rdma := freePort(t), freePort(t)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	done := make(chan string)
	go func() {
		out, err := run(ctx, "serve", "--memory", "--addr", "[::1]", "--state-dir", filepath.Join(t.TempDir(), "s"), "--tcp-port", tcp, "--rdma", "iwarp", "--rdma-port", rdma, "--rpcbind", "off", "--log-level", "error")
		if err != nil {
			out = err.Error()
		}
		done <- out
	}()
	for {
		c, err := transport.DialTCP(ctx, "[::1]:"+tcp, transport.ClientConfig{})
		if err == nil {
			c.Close()
			break
		}
		select {
		case out := <-done:
			t.Fatalf("not served: %s", out)
		case <-time.After(10 * time.Millisecond):
		}
	}
	cancel()
	if out := <-done; !strings.Contains(out, "RDMA: [::1]:"+rdma) || !strings.Contains(out, "mountport="+tcp+" [::1]:/memory /mnt") {
		t.Errorf("the banner does not name [::1]:\n%s", out)
	}
}
