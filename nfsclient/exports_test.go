// The list of exports of a server that has many.

package nfsclient_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/memfs"
)

// TestManyExportsAreListed: the list has no bound that a server reaches, over RDMA as over TCP.
func TestManyExportsAreListed(t *testing.T) {
	const n = 5000
	list := make([]nfsserver.Export, n)
	for i := range list {
		list[i] = nfsserver.Export{Name: fmt.Sprintf("/export/%s/%d", strings.Repeat("long-name", 15), i), FS: memfs.New(memfs.Options{})}
	}
	rdma, tcp := serveTrees(t, list...)
	for _, tr := range []nfsclient.Transport{nfsclient.RDMA, nfsclient.TCP} {
		c := dial(t, tr, rdma, tcp, nfsclient.Options{})
		got, err := c.Exports(t.Context())
		if err != nil || len(got) != n {
			t.Errorf("%v: %d exports, %v; want %d", tr, len(got), err, n)
		}
		if f, err := c.Mount(t.Context(), list[n-1].Name); err != nil || f == nil {
			t.Errorf("%v: mount of the last export: %v", tr, err)
		}
	}
}
