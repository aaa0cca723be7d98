// WebDAV over the wire, checked by litmus: a WebDAV handler on an export that serves a WebDAV file
// system.

package webdavfs_test

import (
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/net/webdav"

	"github.com/nfsrdma/nfsrdma/nfsserver/adapters"
	"github.com/nfsrdma/nfsrdma/nfsserver/adapters/internal/wire"
	"github.com/nfsrdma/nfsrdma/nfsserver/adapters/webdavfs"
	"github.com/nfsrdma/nfsrdma/test/machine"
)

func TestLitmusOverTheWire(t *testing.T) {
	litmus, err := exec.LookPath("litmus")
	if err != nil {
		machine.Skip(t, "no litmus")
	}
	export := wire.Mount(t, newTree(t, webdav.NewMemFS(), adapters.Options{}))
	server := httptest.NewServer(&webdav.Handler{FileSystem: webdavfs.FromClient(export), LockSystem: webdav.NewMemLS()})
	defer server.Close()
	cmd := exec.CommandContext(t.Context(), litmus, server.URL+"/")
	// Litmus's other tests check locks and properties, which belong to the handler.
	cmd.Env = append(cmd.Environ(), "TESTS=basic copymove http")
	cmd.Dir = t.TempDir()
	out, err := cmd.CombinedOutput()
	if n := strings.Count(string(out), "100.0%"); err != nil || n != 3 {
		t.Errorf("litmus: %v, %d groups passed, want 3:\n%s", err, n, out)
	}
}
