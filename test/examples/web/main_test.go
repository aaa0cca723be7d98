// A server and its client in this process, over each provider.

package main

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic/rconn"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
)

func TestGet(t *testing.T) {
	for _, network := range []string{"iwarp", "roce"} {
		t.Run(network, func(t *testing.T) {
			dir, want := t.TempDir(), bytes.Repeat([]byte("0123456789abcdef"), 100_000)
			must.Succeed(t, os.WriteFile(filepath.Join(dir, "file"), want, 0o644))
			at := net.JoinHostPort(machine.Addr(t).String(), strconv.Itoa(machine.Port(t)))
			l, err := rconn.Listen(network, at, nil)
			must.Succeed(t, err)
			defer l.Close()
			go serve(l, dir)
			client := clientOver(network, nil)
			defer client.CloseIdleConnections()
			var got bytes.Buffer
			must.Succeed(t, get(client, "http://"+at+"/file", &got))
			if !bytes.Equal(got.Bytes(), want) {
				t.Errorf("wrong bytes: %d of %d", got.Len(), len(want))
			}
			if err := get(client, "http://"+at+"/none", &got); err == nil {
				t.Error("a file that does not exist: no error")
			}
		})
	}
}

// TestUsage: wrong arguments are refused.
func TestUsage(t *testing.T) {
	for _, args := range [][]string{nil, {"serve", "iwarp", "127.0.0.1:0"}, {"get", "tcp", "http://127.0.0.1:1/x"}, {"serve", "tcp", "127.0.0.1:0", "."}} {
		if err := run(args); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
}
