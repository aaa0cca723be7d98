// The messages of a mount: each names its line in fstab.

package main

import (
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/cmd/internal/session"
)

// TestMountErrorsNameTheLine: mount -a runs the program for each fstab line, so a message begins
// with the line's first two fields, and has them once.
func TestMountErrorsNameTheLine(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct{ spec, options, want string }{
		{"h:/srv/projects", "vers=4.2", "nfsrdma: h:/srv/projects on DIR: option vers=4.2: only NFS version 3"},
		{"h:/srv/projects", "sofft", `nfsrdma: h:/srv/projects on DIR: unknown option "sofft"`},
		{"h:/x", "port=1,proto=auto", "nfsrdma: h:/x on DIR: a port and option proto=auto contradict"},
		{"nfs://h/x", "rdma", "nfsrdma: nfs://h/x on DIR: is over TCP, which contradicts option proto=rdma"},
		{"nfsrdma://h:7/x", "port=8", "nfsrdma: nfsrdma://h:7/x on DIR: option port=8 and the port of"},
		{"/x", "ro", "nfsrdma: /x on DIR: not an export: write SERVER:/export"},
		{"h:/x", "provider=roce", "mount.nfsrdma: warning: h:/x on DIR: option provider is now called rdma"},
		{"h:/x", "ro", ""},
	} {
		var stderr strings.Builder
		cmd := newHelper(&session.Session{Stderr: &stderr})
		cmd.SetErr(&stderr)
		cmd.SetArgs([]string{c.spec, dir, "-f", "-o", c.options})
		err := cmd.ExecuteContext(t.Context())
		if (err == nil) == strings.HasPrefix(c.want, "nfsrdma: ") {
			t.Errorf("%s -o %s: %v", c.spec, c.options, err)
		}
		got := strings.ReplaceAll(stderr.String(), dir, "DIR")
		if !strings.HasPrefix(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s -o %s: %q, want %q", c.spec, c.options, got, c.want)
		}
	}
}
