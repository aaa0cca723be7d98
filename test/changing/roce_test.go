// RoCE at an address that comes, goes and comes again.

package changing

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/test/machine"
)

// readsOver reports whether a file of an export can be read over RoCE.
func readsOver(s *server, port, export, name string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := nfsclient.Dial(ctx, "192.0.2.1:"+port, nfsclient.Options{Transport: nfsclient.RDMA, Provider: nfsclient.RoCE})
	if err != nil {
		return false
	}
	defer c.Close()
	tree, err := c.Mount(ctx, export)
	if err != nil {
		return false
	}
	_, err = tree.ReadFile(ctx, name)
	return err == nil
}

// TestAddressAppearsForRoCE: a server at an address that does not exist yet serves RoCE there once
// the address exists. It does so again after the address has gone and come back. This holds for
// each setting of --rdma.
func TestAddressAppearsForRoCE(t *testing.T) {
	if !machine.Apart(t) {
		return
	}
	dir := t.TempDir()
	for _, provider := range []string{"auto", "iwarp,roce", "roce"} {
		t.Run(provider, func(t *testing.T) {
			port := fmt.Sprint(machine.Port(t))
			s := start(t, "", t.TempDir(), "--addr", "192.0.2.1", "--rdma", provider, "--rdma-port", port, dir)
			s.addr = strings.Replace(s.addr, "127.0.0.1", "192.0.2.1", 1)
			if n := strings.Count(s.said(), "not served over RoCE"); n != 1 {
				t.Errorf("the log has it %d times that RoCE is not served, want once", n)
			}
			sh(t, "ip", "address", "add", "192.0.2.1/32", "dev", "lo")
			s.mustWrite(dir, "f")
			s.await("read over RoCE", func() bool { return readsOver(s, port, dir, "f") })
			sh(t, "ip", "address", "del", "192.0.2.1/32", "dev", "lo")
			sh(t, "ip", "address", "add", "192.0.2.1/32", "dev", "lo")
			s.await("read over RoCE when the address is there again", func() bool { return readsOver(s, port, dir, "f") })
			s.end()
			sh(t, "ip", "address", "del", "192.0.2.1/32", "dev", "lo")
		})
	}
}
