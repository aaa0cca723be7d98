// --addr: every accepted form of an address, and the errors for others.

package program

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/cli"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/spf13/pflag"
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
		"":            "is empty",
		"[127.0.0.1]": "no IPv6 address in the brackets",
		"[::1":        "neither a name nor an address",
		"[]":          "no IPv6 address in the brackets",
		"127.0.0.1:0": "neither a name nor an address",
		"host:70000":  "neither a name nor an address",
		"nfs://host":  "neither a name nor an address",
	} {
		if _, err := listenHost(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("listenHost(%q): %v, want %q", in, err, want)
		}
	}
}

// TestAddressWithPort: --addr HOST:PORT also sets the TCP port. An additional --tcp-port must be
// the same.
func TestAddressWithPort(t *testing.T) {
	for args, want := range map[string]string{
		"--addr 192.0.2.1:2050":                 "192.0.2.1 2050",
		"--addr [::1]:2050":                     "::1 2050",
		"--addr [fe80::1%eth0]:2050":            "fe80::1%eth0 2050",
		"--addr host:2050 --tcp-port 2050":      "host 2050",
		"--addr 192.0.2.1 --tcp-port 2051":      "192.0.2.1 2051",
		"--addr ::1:2050":                       "::1:2050 2049",
		"--addr 192.0.2.1":                      "192.0.2.1 2049",
		"--addr 192.0.2.1:2050 --tcp-port 2051": "! --addr 192.0.2.1:2050 and --tcp-port 2051 contradict each other: give one port",
		"--tcp-port off --addr 192.0.2.1:2050":  "! --addr 192.0.2.1:2050 and --tcp-port off contradict each other: give one port",
		"--addr :2050":                          "! --addr is empty",
	} {
		var o options
		f := pflag.NewFlagSet("serve", pflag.ContinueOnError)
		f.StringVar(&o.addr, "addr", "127.0.0.1", "")
		cli.PortVar(f, &o.tcpPort, "tcp-port", 2049, "")
		if err := f.Parse(strings.Fields(args)); err != nil {
			t.Fatalf("Parse: %v", err)
		}
		err := o.splitAddr(f)
		var host string
		if err == nil {
			host, err = listenHost(o.addr)
		}
		got := fmt.Sprintf("%s %d", host, o.tcpPort)
		if err != nil {
			got = "! " + err.Error()
		}
		if !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, want %s", args, got, want)
		}
	}
}

// TestServeOnBracketedAddress: a server on [::1] is reached there, on the ports of both transports.
func TestServeOnBracketedAddress(t *testing.T) {
	tcp, rdma := freePort(t), freePort(t)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	done := make(chan string)
	go func() {
		out, err := run(ctx, "serve", "--memory", "--addr", "[::1]:"+tcp, "--state-dir", filepath.Join(t.TempDir(), "s"), "--rdma", "iwarp", "--rdma-port", rdma, "--rpcbind", "off", "--log-level", "error")
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
