// Our MOUNT as the showmount of nfs-utils shows it, found by the port mapper.

package program

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// TestShowmount: showmount lists the exports with the clients in their rules, and a client's mounts
// until the client has left.
func TestShowmount(t *testing.T) {
	if !machine.Apart(t, "showmount") {
		return
	}
	dir := "/run/srv" // a short path, because the columns' widths depend on it
	for _, sub := range []string{"data", "my data", "pub"} {
		must.Succeed(t, os.MkdirAll(filepath.Join(dir, sub), 0o777))
	}
	file := filepath.Join(t.TempDir(), "exports")
	put(t, file, dir+`/data 127.0.0.0/255.255.255.0(rw,insecure) pc[0-9].example.org(ro) 2001:db8::/64 # a comment
"`+dir+`/my data" -rw admin.example.org \
  *.example.org(ro)
`+dir+`/pub *(ro,all_squash)
`)
	defer serveArgs(t, "serve", "--exports", file, "--addr", "::", "--rdma", "iwarp", "--ephemeral-key", "--rpcbind", "serve", "--log-level", "error")()
	awaitPort(t, "127.0.0.1:2049")
	awaitPort(t, "127.0.0.1:111")
	show := func(args ...string) string {
		out, err := exec.Command("showmount", args...).CombinedOutput()
		if err != nil {
			t.Errorf("showmount %s: %v", strings.Join(args, " "), err)
		}
		return string(out)
	}
	const want = `/run/srv/data    127.0.0.0/255.255.255.0,pc[0-9].example.org,2001:db8::/64
/run/srv/my data admin.example.org,*.example.org
/run/srv/pub     *
`
	for _, host := range []string{"127.0.0.1", "::1"} {
		if got := show("-e", "--no-headers", host); got != want {
			t.Errorf("showmount -e %s:\n%s", host, got)
		}
	}
	c, err := nfsclient.Dial(t.Context(), "127.0.0.1:2049", nfsclient.Options{Transport: nfsclient.TCP})
	if err != nil {
		t.Fatalf("Dial: %v", err)
	}
	defer c.Close()
	if _, err := c.Mount(t.Context(), dir+"/data"); err != nil {
		t.Fatalf("Mount: %v", err)
	}
	for flag, want := range map[string]string{"-a": "127.0.0.1:/run/srv/data\n", "-d": "/run/srv/data\n"} {
		if got := show(flag, "--no-headers", "127.0.0.1"); got != want {
			t.Errorf("showmount %s: %q", flag, got)
		}
	}
	out, err := run(context.Background(), "check", file)
	if err != nil || !strings.Contains(out, "pc[0-9].example.org") {
		t.Errorf("check: %v\n%s", err, out)
	}
}
