// The lines at start that warn of a first client that cannot write, or cannot connect.

package program

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/nfsserver/osfs"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
)

func TestFirstWrite(t *testing.T) {
	if !osfs.ActsAsCallers() {
		machine.Skip(t, "the right to become other users")
	}
	dir := t.TempDir()
	rules := func(options string) *exports.Export {
		f, err := exports.Parse("f", []byte(dir+" "+options))
		if err != nil {
			t.Fatalf("Parse: %v", err)
		}
		return f.Exports[0]
	}
	for name, c := range map[string]struct {
		mode  os.FileMode
		owner int
		o     options
		rules *exports.Export
		cure  string // "": no lines
		of    string // the clients in the line; "": all clients
	}{
		"of root alone":           {0o755, 0, options{}, nil, "--no-root-squash", ""},
		"of a user":               {0o755, 7, options{}, nil, "", ""},
		"of a group":              {0o775, 0, options{}, nil, "", ""},
		"of all":                  {0o1777, 0, options{}, nil, "", ""},
		"read-only":               {0o755, 0, options{readOnly: true}, nil, "", ""},
		"no squash":               {0o755, 0, options{trust: trust{noRootSquash: true}}, nil, "", ""},
		"a file that squashes":    {0o755, 0, options{trust: trust{noRootSquash: true}}, rules("*(rw)"), "no_root_squash in /etc/e", ""},
		"a file that does not":    {0o755, 0, options{}, rules("*(rw,no_root_squash) 192.0.2.7(ro)"), "", ""},
		"root of one client":      {0o755, 0, options{}, rules("*(ro) 192.0.2.0/24(rw) b(rw) 192.0.2.7(rw,no_root_squash)"), "no_root_squash in /etc/e", "192.0.2.0/24, b"},
		"root of most clients":    {0o755, 0, options{}, rules("*(rw,no_root_squash) b(rw,all_squash)"), "no_root_squash in /etc/e", "b"},
		"many clients":            {0o755, 0, options{}, rules("a(rw) b(rw) c(rw) d(rw) e(rw) f(rw,no_root_squash)"), "no_root_squash in /etc/e", "a, b, c and 2 more"},
		"a file for readers":      {0o755, 0, options{}, rules("*(ro)"), "", ""},
		"a file with a user":      {0o755, 0, options{}, rules("*(rw,all_squash,anonuid=7)"), "no_root_squash in /etc/e", ""},
		"a file with root":        {0o755, 0, options{}, rules("*(rw,all_squash,anonuid=0)"), "", ""},
		"a file of squashed root": {0o755, 0, options{}, rules("*(rw,all_squash,no_root_squash)"), "no_root_squash in /etc/e", ""},
	} {
		at := filepath.Join(dir, name)
		must.Succeed(t, os.Mkdir(at, 0o700))
		must.Succeed(t, os.Chown(at, c.owner, 0))
		must.Succeed(t, os.Chmod(at, c.mode))
		set := &exportSet{o: &c.o, file: "/etc/e", from: map[string]source{"/x": {at: at, dir: &directory{}, rules: c.rules}}}
		got := strings.Join(set.firstWriteLines([]string{"/x", "/memory"}), "\n")
		if c.of == "" {
			c.of = "clients"
		}
		switch {
		case c.cure == "" && got != "":
			t.Errorf("%s: %q, want nothing", name, got)
		case c.cure != "" && !strings.Contains(got, "warning: only root may write in "+at+" (mode 0755)"):
			t.Errorf("%s: %q, want the directory", name, got)
		case c.cure != "" && !strings.Contains(got, "chown USER '"+at+"'"):
			t.Errorf("%s: %q, want the command that gives a user the right", name, got)
		case c.cure != "" && !strings.Contains(got, "and root of "+c.of+" acts as another user: "):
			t.Errorf("%s: %q, want it about %s", name, got, c.of)
		case !strings.HasSuffix(got, c.cure):
			t.Errorf("%s: %q, want %q", name, got, c.cure)
		}
	}
}

// TestFirstWriteOfManyDirectories: directories with the same clients share one set of lines.
func TestFirstWriteOfManyDirectories(t *testing.T) {
	if !osfs.ActsAsCallers() {
		machine.Skip(t, "the right to become other users")
	}
	dir := t.TempDir()
	set := &exportSet{o: &options{}, file: "/etc/e", from: map[string]source{}}
	var names []string
	for i, clients := range []string{"*(rw)", "*(rw)", "b(rw) c(rw,no_root_squash)", "*(rw)", "*(rw)", "*(rw)"} {
		at := filepath.Join(dir, string(rune('1'+i)))
		must.Succeed(t, os.Mkdir(at, 0o755))
		must.Succeed(t, os.Chmod(at, 0o755))
		f, err := exports.Parse("f", []byte(at+" "+clients))
		if err != nil {
			t.Fatalf("Parse: %v", err)
		}
		set.from[at] = source{at: at, dir: &directory{}, rules: f.Exports[0]}
		names = append(names, at)
	}
	got := strings.ReplaceAll(strings.Join(set.firstWriteLines(names), "\n"), dir, "")
	const want = `warning: only root may write in /1 (mode 0755), /2 (mode 0755), /4 (mode 0755) and 2 more, and root of clients acts as another user: writes there fail with "permission denied"
  to let a user write: chown USER /1 /2 /4; to let root of clients be root: no_root_squash in /etc/e
warning: only root may write in /3 (mode 0755), and root of b acts as another user: writes there fail with "permission denied"
  to let a user write: chown USER /3; to let root of clients be root: no_root_squash in /etc/e`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestReachLine(t *testing.T) {
	here := &nfsserver.Service{TCPAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}}
	const line = "clients: on this machine only, as the address is 127.0.0.1; for other machines: --addr 0.0.0.0"
	for file, want := range map[string]string{"": line + ", and --exports FILE to name them", "/etc/e": line} {
		if got := reachLine(here, "127.0.0.1", file); got != want {
			t.Errorf("on loopback, with the file %q: %q, want %q", file, got, want)
		}
	}
	there := &nfsserver.Service{RDMAAddr: &net.TCPAddr{IP: net.IPv6unspecified}}
	if got := reachLine(there, "::", ""); got != "" {
		t.Errorf("on all addresses: %q, want nothing", got)
	}
}

// TestMetricsHost: clients can use the printed address of the metrics page.
func TestMetricsHost(t *testing.T) {
	name, err := os.Hostname()
	if err != nil {
		t.Fatalf("os.Hostname: %v", err)
	}
	for addr, want := range map[string]string{
		":9049": name + ":9049", "0.0.0.0:9049": name + ":9049", "[::]:9049": name + ":9049",
		"127.0.0.1:9049": "127.0.0.1:9049", "[::1]:9049": "[::1]:9049", "localhost:9049": "localhost:9049",
	} {
		if got := metricsHost(addr); got != want {
			t.Errorf("%s: %s, want %s", addr, got, want)
		}
	}
}

// TestFirstWriteBesideReload: a server accepts commands before it has printed its exports.
func TestFirstWriteBesideReload(t *testing.T) {
	file, dirs := filepath.Join(t.TempDir(), "exports"), []string{t.TempDir(), t.TempDir(), t.TempDir()}
	putFirst := func(n int) { put(t, file, strings.Join(dirs[:n], " *(rw,insecure)\n")+" *(rw,insecure)\n") }
	putFirst(1)
	set, v := startFile(t, file)
	var told sync.WaitGroup
	over := make(chan struct{})
	told.Go(func() {
		for {
			select {
			case <-over:
				return
			default:
				set.firstWriteLines(dirs)
			}
		}
	})
	for i := range 20 {
		putFirst(1 + i%3)
		if _, err := set.reload(v); err != nil {
			t.Errorf("reload: %v", err)
		}
	}
	close(over)
	told.Wait()
}
